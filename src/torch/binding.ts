/**
 * Loads the addon and states its interface. Nothing else in the project calls the addon by name.
 */

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { toErrorCode } from "../errors/error-codes.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { DType, TensorData } from "./dtype.ts";
import { addonMissing, findAddon, setupCommand } from "./find-addon.ts";
import { findLoadedLibtorch, libtorchMismatch } from "./loaded-libtorch.ts";
import { openblasCore } from "./openblas-core.ts";

/** An operator as the addon gives it: `results` has a letter per result, T tensor, L tensors, O object, V other. */
export interface NativeOperator {
  readonly call: (...args: readonly unknown[]) => unknown;
  readonly results: string;
  readonly numArguments: number;
}

/** Live and peak bytes of CPU tensors in the process, and live handles of this thread. */
export interface MemoryStats {
  readonly liveBytes: number;
  readonly peakBytes: number;
  readonly numAllocations: number;
  readonly liveTensors: number;
}

/** Properties of a CUDA device. */
export interface CudaProperties {
  readonly name: string;
  readonly totalBytes: number;
  readonly numProcessors: number;
  readonly computeMajor: number;
  readonly computeMinor: number;
  /** Names the device itself, alike in every process: 8-4-4-4-12 hexadecimal digits. */
  readonly uuid: string;
}

/** Where another process finds the memory of a tensor on the same device. */
export interface SharedCudaMemory {
  /** Bytes that CUDA opens the allocation by. */
  readonly handle: readonly number[];
  /** Where the tensor begins in it. */
  readonly offsetBytes: number;
}

/** Bytes on a CUDA device: in tensors now, the peak since the last reset, and held by the allocator. */
export interface CudaMemory {
  readonly liveBytes: number;
  readonly peakBytes: number;
  readonly reservedBytes: number;
}

type Handle = number;

interface Native {
  readonly torchVersion: string;
  readonly builtWithCuda: boolean;
  setErrorFactory(factory: (code: string, message: string) => Error): void;

  operator(name: string): NativeOperator | null;
  listSchemas(): string[];

  enterScope(): void;
  leaveScope(kept: readonly Handle[]): void;
  release(tensor: Handle): void;
  track(tensor: Handle): boolean;
  pin(tensor: Handle): void;
  isLive(tensor: Handle): boolean;
  liveTensors(): number;
  releaseObject(object: Handle): void;
  memoryStats(): MemoryStats;
  resetPeakMemory(): void;
  trimMemory(): void;

  shape(tensor: Handle): number[];
  strides(tensor: Handle): number[];
  dtype(tensor: Handle): DType;
  device(tensor: Handle): string;
  numel(tensor: Handle): number;
  isContiguous(tensor: Handle): boolean;
  isAligned(tensor: Handle, bytes: number): boolean;
  alias(tensor: Handle): Handle;
  storageAddress(tensor: Handle): number;
  describe(tensor: Handle): string;
  fromTypedArray(data: TensorData, dtype: DType, shape: readonly number[]): Handle;
  readInto(tensor: Handle, target: TensorData): void;
  writeFrom(tensor: Handle, source: TensorData): void;
  item(tensor: Handle): number;
  setNumThreads(count: number): void;
  numThreads(): number;

  requiresGrad(tensor: Handle): boolean;
  setRequiresGrad(tensor: Handle, requiresGrad: boolean): void;
  isLeaf(tensor: Handle): boolean;
  grad(tensor: Handle): Handle | null;
  setGrad(tensor: Handle, grad: Handle | null): void;
  backward(
    tensors: readonly Handle[],
    gradients: readonly (Handle | null)[] | undefined,
    retainGraph: boolean,
    createGraph: boolean,
    inputs: readonly Handle[] | undefined,
  ): void;
  gradients(
    outputs: readonly Handle[],
    inputs: readonly Handle[],
    gradOutputs: readonly (Handle | null)[] | undefined,
    retainGraph: boolean,
    createGraph: boolean,
  ): (Handle | null)[];
  isGradEnabled(): boolean;
  setGradEnabled(enabled: boolean): void;
  enterInferenceMode(): void;
  leaveInferenceMode(): void;
  customFunction(
    inputs: readonly Handle[],
    outputs: readonly Handle[],
    saved: readonly Handle[],
    backward: (gradOutputs: (Handle | null)[], saved: Handle[]) => (Handle | null)[],
  ): Handle[];

  manualSeed(seed: number): void;
  createGenerator(device: string, seed: number): Handle;
  seedGenerator(generator: Handle, seed: number): void;
  generatorState(generator: Handle | string): Handle;
  setGeneratorState(generator: Handle | string, state: Handle): void;

  sendTensor(tensor: Handle): number;
  receiveTensor(parcel: number): Handle;
  discardParcel(parcel: number): void;
  waitingParcels(): number;

  mapFile(path: string): { readonly handle: Handle; readonly size: number };
  tensorInFile(file: Handle, offset: number, dtype: DType, shape: readonly number[]): Handle;

  pagedAttention(
    q: Handle,
    keys: Handle,
    values: Handle,
    table: Handle,
    rows: Handle,
    positions: Handle,
    scale: number,
    window: number,
    softCap: number,
    sinks: number | null,
  ): Handle;
  areRows(tensors: readonly Handle[]): boolean;
  steadyLinear(x: Handle, weight: Handle, bias: Handle | null): Handle | null;
  openblasCore(): string | null;
  residualNorm(
    x: Handle,
    delta: Handle | null,
    weight: Handle,
    eps: number,
  ): [sum: Handle | null, normed: Handle, means: Handle];
  residualNormBackward(
    grad: Handle,
    gradSum: Handle | null,
    x: Handle,
    weight: Handle,
    means: Handle,
    eps: number,
  ): [grad: Handle, gradWeight: Handle];
  rotateRows(x: Handle, cos: Handle, sin: Handle, sign: 1 | -1): Handle;
  storeRows(x: Handle, slots: Handle, into: Handle): void;
  sampleRows(scores: Handle, temperatures: Float64Array, uniforms: Float64Array, out: Float64Array): void;

  cudaDeviceCount(): number;
  cudaSetDevice(index: number): void;
  cudaSynchronize(): void;
  cudaDeviceProperties(index?: number): CudaProperties;
  cudaMemory(index?: number): CudaMemory;
  cudaResetPeak(index?: number): void;
  cudaEmptyCache(): void;
  cudaShareMemory(tensor: Handle): SharedCudaMemory;
  cudaCreateStream(isHighPriority: boolean): Handle;
  cudaCurrentStream(): Handle;
  cudaSetStream(stream: Handle): void;
  cudaSynchronizeStream(stream: Handle): void;
  cudaCreateEvent(hasTiming: boolean): Handle;
  cudaRecordEvent(event: Handle): void;
  cudaWaitEvent(event: Handle): void;
  cudaIsEventDone(event: Handle): boolean;
  cudaSynchronizeEvent(event: Handle): void;
  cudaElapsedMs(start: Handle, end: Handle): number;
  cudaCreateGraph(): Handle;
  cudaBeginCapture(graph: Handle, poolOf?: Handle): void;
  cudaEndCapture(graph: Handle): void;
  cudaReplayGraph(graph: Handle): void;
  cudaKeepProductsWhole(): void;
  cudaAreProductsWhole(): boolean;
  cudaTuneProducts(): boolean;
  compileKernel(source: string, name: string): Handle;
  launchKernel(
    kernel: Handle,
    grid: readonly number[],
    block: readonly number[],
    sharedBytes: number,
    overlaps: boolean,
    kinds: string,
    values: readonly number[],
  ): void;

  distributedBackends(): string[];
  openTcpStore(
    host: string,
    port: number,
    isServer: boolean,
    timeoutMs: number,
  ): Promise<{ readonly handle: Handle; readonly port: number }>;
  openFileStore(path: string, worldSize: number): Handle;
  openLocalStore(): Handle;
  storeSet(store: Handle, key: string, bytes: Uint8Array): Promise<void>;
  storeGet(store: Handle, key: string, timeoutMs: number): Promise<number[]>;
  joinGroup(
    store: Handle,
    backend: string,
    name: string,
    rank: number,
    worldSize: number,
    timeoutMs: number,
    host: string,
    networkInterface: string,
    device: string,
    prefix: string,
    isLazy: boolean,
  ): Promise<Handle>;
  allReduce(group: Handle, tensor: Handle, reduction: string): Promise<void>;
  allReduceSync(group: Handle, tensor: Handle, reduction: string): void;
  reduceScatter(group: Handle, output: Handle, input: Handle, reduction: string): Promise<void>;
  reduceScatterSync(group: Handle, output: Handle, input: Handle, reduction: string): void;
  allGather(group: Handle, outputs: readonly Handle[], input: Handle): Promise<void>;
  allGatherSync(group: Handle, outputs: readonly Handle[], input: Handle): void;
  allGatherInto(group: Handle, output: Handle, input: Handle): Promise<void>;
  allGatherIntoSync(group: Handle, output: Handle, input: Handle): void;
  broadcast(group: Handle, tensor: Handle, root: number): Promise<void>;
  broadcastSync(group: Handle, tensor: Handle, root: number): void;
  barrier(group: Handle): Promise<void>;
  barrierSync(group: Handle): void;
  send(group: Handle, tensor: Handle, to: number, tag: number): Promise<void>;
  sendSync(group: Handle, tensor: Handle, to: number, tag: number): void;
  receive(group: Handle, tensor: Handle, from: number, tag: number): Promise<void>;
  receiveSync(group: Handle, tensor: Handle, from: number, tag: number): void;
}

/**
 * The addon of this thread, loaded when something of it is first asked for: run files, `--help` and all that needs no tensors
 * work where it is not built.
 */
export let native: Native = new Proxy({} as Native, {
  get(_, name, placeholder) {
    if (native === placeholder) native = load();
    return Reflect.get(native, name);
  },
});

const CPUINFO = "/proc/cpuinfo";

function load(): Native {
  const folder = findAddon();
  if (folder === null) throw addonMissing();
  const addon = join(folder, "reroll.node");
  const require = createRequire(import.meta.url);
  try {
    // OpenMP reads these once, when libtorch is loaded. Spinning threads take the cores that other threads need: with
    // it, two threads on two cores were half as fast as one.
    const environment: { setIfUnset(name: string, value: string): void } = require(join(folder, "environment.node"));
    environment.setIfUnset("OMP_WAIT_POLICY", "passive");
    environment.setIfUnset("GOMP_SPINCOUNT", "0");
    const core = existsSync(CPUINFO) ? openblasCore(readFileSync(CPUINFO, "utf8")) : null;
    if (core !== null) environment.setIfUnset("OPENBLAS_CORETYPE", core);
    const loaded: Native = require(addon);
    loaded.setErrorFactory((code, message) => new RerollError(toErrorCode(code), message));
    expectSameLibtorch(folder);
    return loaded;
  } catch (cause) {
    if (cause instanceof RerollError) throw cause;
    throw loadError(addon, folder, cause);
  }
}

function expectSameLibtorch(folder: string): void {
  const record = join(folder, "libtorch.json");
  const loaded = findLoadedLibtorch();
  if (loaded === null || !existsSync(record)) return;
  const mismatch = libtorchMismatch(JSON.parse(readFileSync(record, "utf8")), loaded);
  if (mismatch === null) return;
  throw new RerollError(
    "LIBTORCH_CHANGED",
    `Another libtorch than expected: ${mismatch}. Run "${setupCommand}" again to rebuild for the libtorch that is there now, ` +
      "or unset LD_LIBRARY_PATH if it leads to another one.",
  );
}

function loadError(addon: string, folder: string, cause: unknown): RerollError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const built = builtAgainst(folder);
  const advice = /undefined symbol|version `|symbol lookup/.test(reason)
    ? "The libtorch that was found now has another ABI than the one the addon was built against"
    : /cannot open shared object file|image not found|no such file/i.test(reason)
      ? "A library that the addon needs is missing"
      : "The addon could not be loaded";
  return new RerollError(
    "ADDON_BROKEN",
    `${advice}: ${reason} (loading ${addon}${built}). Run "${setupCommand}" to find libtorch again and rebuild; ` +
      "REROLL_LIBTORCH names the folder of a libtorch to use.",
    {},
    { cause },
  );
}

function builtAgainst(folder: string): string {
  const record = join(folder, "libtorch.json");
  if (!existsSync(record)) return "";
  return `, built against ${readFileSync(record, "utf8").replaceAll(/\s+/g, " ").trim()}`;
}
