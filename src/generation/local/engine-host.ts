/** An engine that lives in a thread, as its owner calls it. */
import type { Quantization } from "../../models/causal-lm/quantized-matrix.ts";
import type { DType } from "../../torch/dtype.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { batchedTransport } from "../../workers/batched-transport.ts";
import type { HostOptions } from "../../workers/host-in-thread.ts";
import { tensorCarrier } from "../../workers/tensor-carrier.ts";
import type { RequestLimits } from "../check-request.ts";
import type { Engine, EngineStatus } from "../engine.ts";
import type { EngineOptions } from "./engine-options.ts";
import type { EngineSplit } from "./split/join-ranks.ts";

/** Where the thread gets its model from. */
export interface EngineSource {
  /** A Hugging Face folder, or a .gguf file. */
  readonly folder: string;
  /** Default "cpu". */
  readonly device?: string;
  /** The ranks that the model is split over, of which this is the first, on the device of the first. Absent: it is all on one device. */
  readonly split?: EngineSplit | undefined;
  /** Default: the type that the model's config states. */
  readonly dtype?: "float32" | "bfloat16" | "float16";
  /**
   * Holds the linear layers in fewer bits: then new weights are adapters, and the rest stays. "fp8" holds those of new weights in 8-bit
   * floats. Default: as they are.
   */
  readonly quantization?: Quantization | "fp8";
  /** The folder of the tokenizer, for stop strings; absent for an engine without. */
  readonly tokenizerFolder?: string;
  /** The version of the first weights. Default 0. */
  readonly version?: number;
  /** Whether a trainer shares its weights before the first request: what reads them is prepared then. Default false. */
  readonly isBorrower?: boolean;
  readonly options?: EngineOptions;
  /** Threads of one operator in the engine's thread. Default: libtorch's own choice. */
  readonly numThreads?: number;
}

/** One weight without its values. */
export interface WeightFacts {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** What an engine says of itself at its start. */
export interface EngineDescription {
  readonly limits: RequestLimits;
  readonly status: EngineStatus;
}

/** An engine whose status is told as it changes, since asking for it would take a turn of the engine's thread. */
export interface EngineHost extends Required<Omit<Engine, "status">> {
  describe(): Promise<EngineDescription>;
  /** Calls back after every step, with what came of it or within 100 ms, until the engine is closed. Rejects with ENGINE_BROKEN where it can never answer again. */
  watch(onStatus: (status: EngineStatus) => void): Promise<void>;
  /** Gives the memory of the cache back until the next request. */
  sleep(): Promise<void>;
  /** New weights by their Hugging Face names, all of them, or the adapters that change those of its files. They are copied before it resolves. */
  updateWeights(version: number, weights: ReadonlyMap<string, Tensor>): Promise<void>;
  /** The same from a Hugging Face folder, which holds all weights of the model and no others, as a trainer of this project writes them. */
  loadWeights(version: number, folder: string): Promise<void>;
  /** Reads a trainer's parameters where they are from now on. The trainer changes them only while this engine is held. */
  shareWeights(version: number, parameters: ReadonlyMap<string, Tensor>): Promise<void>;
  /** Draws with the parameters that it shares as this version, from now on: the trainer has changed them where they are. */
  renewWeights(version: number): Promise<void>;
  /** Computes nothing more until it is released, or weights are shared or renewed. */
  hold(): Promise<void>;
  release(): Promise<void>;
}

/** How both sides treat what crosses: tensors keep their memory, and messages of one turn travel together. */
export function engineLine(schedule: (flush: () => void) => void): HostOptions {
  return { carrier: tensorCarrier, wrap: (line) => batchedTransport(line, schedule) };
}
