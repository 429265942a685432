/**
 * What a run is going to do, in words, before it starts: batch arithmetic and memory. Pure.
 *
 * Throws where the estimate is more than the machine has, with what to change.
 */
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { decodeProblem, decodingWords, splitDecoding } from "../generation/local/decode-path.ts";
import { defaultBlockSize } from "../generation/local/engine-options.ts";
import type { CausalLmConfig } from "../models/causal-lm/config.ts";
import { stepArithmetic } from "./batch-arithmetic.ts";
import { deviceMemory, isOnEveryRank, movableRoles, type RolePlaces } from "./device-memory.ts";
import { engineSplitProblem, ranksOf, splitEngines } from "./engine-shares.ts";
import {
  countParameters,
  type MemoryPart,
  microbatchTokens,
  NO_ROLES,
  peakBytes,
  type RoleShapes,
} from "./estimate-memory.ts";
import { deviceName, engineDevices } from "./machine.ts";
import { nearestChange } from "./memory-changes.ts";
import type { RunConfig } from "./run-config.ts";
import { hasLentEngines } from "./shares-weights.ts";

/** The machine that a run would use. */
export interface Machine {
  /** The device by name, never "auto". */
  readonly device: string;
  readonly dtype: "float32" | "bfloat16";
  /** Memory of the GPU, or of the machine where the run is on the CPU. */
  readonly memoryBytes: number;
  /** Ranks of the trainer on this device. Default 1. */
  readonly numRanksHere?: number;
  /** Where the roles of the run are. Default: all on this device. */
  readonly places?: RolePlaces;
  /** GPUs of the machine. Default: none but those of the run. */
  readonly numGpus?: number;
}

/** A run in words and numbers. */
export interface RunPlan {
  /** Lines for a person, with one fact each. */
  readonly lines: readonly string[];
  /** With replay, of a step that has found enough to replay. */
  readonly updatesPerStep: number;
  readonly memory: readonly MemoryPart[];
  readonly totalBytes: number;
  /** How the run's engines decode on their GPU, in words; null on the CPU, and where engines are servers elsewhere. */
  readonly decoding: string | null;
}

/** Plans a run that checkRun has let pass. `model` is the shape of its weights, `roles` those of the others that it loads. */
export function planRun(
  config: RunConfig,
  recipe: Recipe,
  machine: Machine,
  model: CausalLmConfig,
  roles: RoleShapes = NO_ROLES,
): RunPlan {
  const { hasCritic, numEpochs } = recipe;
  const needsReference = recipe.needs.includes("referenceLogprobs_BT");
  const isOnGpu = machine.device.startsWith("cuda");
  expectContext(config, model);
  const { dtype } = machine;
  const isEngineLent = hasLentEngines(config, isOnGpu);
  const places = machine.places ?? onOne(machine);
  const facts = { model, dtype, isOnGpu, needsReference, hasCritic, isEngineLent, roles };
  // In a synchronous run the engine gives its cache back while the trainer works, where memory would be short otherwise.
  const takesTurns = config.loop.type === "sync" && config.placement.engine.sleep !== false;
  const placesOf = ({ placement: { engine } }: RunConfig, at: RolePlaces) => ({
    ...at,
    engines: splitEngines(at.engines, engine),
  });
  const devicesOf = (run: RunConfig, at = places) =>
    deviceMemory(run, facts, placesOf(run, at)).map((one) => ({ ...one, bytes: peakBytes(one.parts, takesTurns) }));
  const [first, ...others] = devicesOf(config);
  const { parts: memory, bytes: totalBytes } = first!;
  // Beside GPUs, what is on the host is not counted.
  const isTooFull = ({ device, bytes }: { readonly device: string; readonly bytes: number }) =>
    device.startsWith("cuda") === isOnGpu && bytes > machine.memoryBytes;
  const tooFull = [first!, ...others].find(isTooFull);
  if (tooFull !== undefined) {
    const fits = (run: RunConfig) => engineSplitProblem(run, model) === null && !devicesOf(run).some(isTooFull);
    const moved = movedRoles(movableRoles(config, facts), places, machine.numGpus ?? 0);
    // A GPU that nothing is on costs the least.
    const found = moved.find((one) => !devicesOf(config, one.places).some(isTooFull))?.words;
    const over = { totalBytes: tooFull.bytes, nearest: found ?? nearestChange(config, fits) };
    throw tooLarge(config, { ...machine, device: tooFull.device }, tooFull.parts, over);
  }
  const decoding = config.engine.remote === null ? decodingOf(config, model, machine) : null;
  return {
    lines: [
      ...batchLines(config, numEpochs),
      ...quantizationLines(config.model.quantization),
      ...engineLines(config.engine),
      ...overlapLines(config, isOnGpu),
      ...(decoding === null ? [] : [`the engine decodes ${decoding}`]),
      ...memoryLines(model, machine, memory, totalBytes),
      ...rankLines(config, machine, memory),
      ...others.flatMap(({ device, parts, bytes }) => otherLines(device, parts, bytes)),
    ],
    updatesPerStep: stepArithmetic(config, numEpochs).numUpdates,
    memory,
    totalBytes,
    decoding,
  };
}

/** Roles that are with the trainer on the first GPU that nothing is on: one, the other, both. */
function movedRoles(
  roles: readonly ("reference" | "critic")[],
  places: RolePlaces,
  numGpus: number,
): readonly { readonly places: RolePlaces; readonly words: string }[] {
  const taken = [
    ...places.trainerDevices,
    ...places.engines.flatMap(engineDevices),
    ...(places.reference?.devices ?? []),
    ...(places.critic?.devices ?? []),
  ].map(deviceName);
  const free = Array.from({ length: numGpus }, (_, i) => i).find((i) => !taken.includes(`cuda:${i}`));
  const here = roles.filter((role) => places[role] === null);
  if (free === undefined) return [];
  const place = { devices: [`cuda:${free}`], workers: "processes" as const };
  return [...here.map((role) => [role]), ...(here.length > 1 ? [here] : [])].map((names) => ({
    places: { ...places, ...Object.fromEntries(names.map((name) => [name, place])) },
    words: names.map((name) => `placement.${name}.devices: "${free}"`).join(" and "),
  }));
}

function decodingOf({ placement }: RunConfig, model: CausalLmConfig, { device, dtype }: Machine): string | null {
  const problem =
    ranksOf(placement.engine) > 1
      ? splitDecoding
      : decodeProblem(model, { dtype, device, blockSize: defaultBlockSize });
  return decodingWords(device, problem);
}

function engineLines({ quantization, cacheQuantization }: RunConfig["engine"]): string[] {
  const held = [
    ...(quantization === null ? [] : ["linear layers"]),
    ...(cacheQuantization === null ? [] : ["keys and values"]),
  ];
  return held.length === 0 ? [] : [`the engine holds its ${held.join(", and its ")} in 8-bit floats`];
}

function quantizationLines(quantization: RunConfig["model"]["quantization"]): string[] {
  return quantization === null
    ? []
    : [
        `linear layers in ${quantization}, frozen, under adapters; "reroll export --merge" adds the adapters to the base as its files have it`,
      ];
}

/** On one GPU, engine and trainer take turns: see "Whether to be asynchronous" in docs/guides/off-policy.md. */
function overlapLines({ loop, engine, placement }: RunConfig, isOnGpu: boolean): string[] {
  const isShared = isOnGpu && engine.remote === null && placement.engine.devices === null;
  return loop.type === "async" && isShared
    ? [
        "asynchronous with the engine on the trainer's GPU: they take turns on it, so that what is saved over loop.type sync is the time that it waits for environments, rewards and the last replies of a step",
      ]
    : [];
}

/** Everything on the one device of a machine. */
function onOne({ device, numRanksHere = 1 }: Machine): RolePlaces {
  const engines = [{ device, workers: "threads" as const }];
  return {
    device,
    trainerDevices: new Array<string>(numRanksHere).fill(device),
    engines,
    reference: null,
    critic: null,
  };
}

/** A device beside that of the first rank, with what is on it by role. Ranks on a device each are alike, and told of once. */
function otherLines(device: string, parts: readonly MemoryPart[], bytes: number): string[] {
  const owners = [...new Set(parts.map(({ owner }) => owner))];
  if (owners.includes("trainer")) return [];
  const words = owners.map((owner) => {
    const own = parts.filter((part) => part.owner === owner);
    return `${owner}: ${own.map((part) => `${part.what} ${size(part.bytes)}`).join(", ")}`;
  });
  return words.length === 1
    ? [`  ${words[0]!.replace(":", `, on ${device}:`)}`]
    : [`  on ${device}, about ${size(bytes)}: ${words.join("; ")}`];
}

/** What ranks other than the first take, who have no engine, and what all keep on the host. */
function rankLines(
  { training: { ranks, strategy } }: RunConfig,
  machine: Machine,
  memory: readonly MemoryPart[],
): string[] {
  const { zero, tensor, context, expert, pipeline, offload } = strategy;
  const { numRanksHere = 1 } = machine;
  const words = [
    ...(zero > 0 ? [`zero ${zero}`] : []),
    ...(tensor > 1 ? [`tensor ${tensor}`] : []),
    ...(context > 1 ? [`context ${context}`] : []),
    ...(expert > 1 ? [`expert ${expert}`] : []),
    ...(pipeline > 1 ? [`pipeline ${pipeline}`] : []),
    ...(offload === "none" ? [] : [`offload of ${offload}`]),
  ];
  if (ranks === 1 && words.length === 0) return [];
  const each = peakBytes(memory.filter(isOnEveryRank), false) / numRanksHere;
  const how = words.length === 0 ? "rows are shared" : words.join(", ");
  const where = numRanksHere > 1 ? `${numRanksHere} of them on ${machine.device}` : "on a device each";
  return ranks === 1
    ? [`  strategy: ${how}`]
    : [`  ${plural(ranks, "rank")} (${how}), ${where}: each takes ${size(each)}`];
}

/** As in "32 prompts x 8 samples = 256 trajectories per step". */
function batchLines(config: RunConfig, numEpochs: number): string[] {
  const { rollout, training, loop } = config;
  const { numFresh, numReplayed, numUpdates: perStep } = stepArithmetic(config, numEpochs);
  const upTo = numReplayed > 0 && training.minibatch > 0 ? "up to " : "";
  const replayed = numReplayed === 0 ? "" : ` and up to ${numReplayed} replayed`;
  const { warmup, unit, type } = training.schedule;
  const minibatch = training.minibatch === 0 ? "no minibatches" : `minibatch ${training.minibatch}`;
  const epochs = numEpochs === 1 ? "" : ` x ${numEpochs} epochs`;
  const warmupWords =
    unit === "updates"
      ? `${plural(warmup, "warm-up update")} = ${decimals(warmup / perStep)} rollout steps`
      : `${plural(warmup, "warm-up rollout step")} = ${upTo}${plural(warmup * perStep, "update")}`;
  return [
    `${plural(rollout.groupsPerStep, "prompt")} x ${plural(rollout.groupSize, "sample")} = ${plural(numFresh, "trajectory", "trajectories")}${replayed} per step; ` +
      `${minibatch}${epochs} -> ${upTo}${plural(perStep, "update")} per rollout step`,
    ...(warmup === 0 ? [] : [warmupWords]),
    `${plural(loop.steps, "step")} = ${upTo}${plural(loop.steps * perStep, "update")}, learning rate ${training.optimizer.lr} ${type === "constant" ? "constant" : `with ${type} decay`}`,
  ];
}

/** Parameters, and memory by owner. */
export function memoryLines(
  model: CausalLmConfig,
  { device, dtype, memoryBytes }: Machine,
  memory: readonly MemoryPart[],
  totalBytes: number,
): string[] {
  const owners = [...new Set(memory.map(({ owner }) => owner))];
  const share = `${Math.max(1, Math.round((100 * totalBytes) / memoryBytes))} %`;
  return [
    `${counted(countParameters(model))} parameters in ${dtype} on ${device}: about ${size(totalBytes)} of ${size(memoryBytes)} (${share})`,
    ...owners.map((owner) => {
      const own = memory.filter((part) => part.owner === owner);
      return `  ${owner}: ${own.map(({ what, bytes }) => `${what} ${size(bytes)}`).join(", ")}`;
    }),
  ];
}

function expectContext({ rollout, model }: RunConfig, { maxPositions }: CausalLmConfig): void {
  // A preset has no habits yet: it learns whatever positions it sees.
  if (model.path === null || rollout.contextLength <= maxPositions) return;
  throw new RerollError(
    "CONTRADICTORY_OPTIONS",
    `rollout.contextLength is more than the model was made for: got ${rollout.contextLength}, and its config says ${maxPositions} positions. Set contextLength to ${maxPositions} or less.`,
  );
}

function tooLarge(
  config: RunConfig,
  { device, memoryBytes }: Machine,
  memory: readonly MemoryPart[],
  { totalBytes, nearest }: { readonly totalBytes: number; readonly nearest: string | null },
): RerollError {
  const largest = memory.toSorted((a, b) => b.bytes - a.bytes)[0]!;
  const listed = memory.map(({ owner, what, bytes }) => `${owner} ${what} ${size(bytes)}`).join(", ");
  return new RerollError(
    "NOT_ENOUGH_MEMORY",
    `This run needs about ${size(totalBytes)}, and ${device} has ${size(memoryBytes)}: ${listed}. ${nearest === null ? adviceFor(config, largest) : `It fits with ${nearest}.`}`,
    { totalBytes, memoryBytes },
  );
}

function adviceFor(config: RunConfig, { what }: MemoryPart): string {
  if (what.startsWith("activations")) {
    const tokens = microbatchTokens(config);
    if (!config.training.recompute) return "Set training.recompute to true, or lower training.maxTokensPerMicrobatch.";
    return tokens > config.rollout.contextLength
      ? `Lower training.maxTokensPerMicrobatch, which is ${config.training.maxTokensPerMicrobatch}.`
      : `Lower rollout.contextLength, which is ${config.rollout.contextLength}.`;
  }
  if (what === "states of linear attention")
    return "Lower engine.maxRunning: every sequence that runs has a state of its own.";
  if (what === "KV cache") return "Lower engine.maxRunning or rollout.contextLength.";
  if (config.model.lora === null)
    return "Train adapters instead, with model.lora: { rank: 16 }, or take a smaller model.";
  return "Take a smaller model, or a larger machine.";
}

/** As in "1 row" and "2 rows". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

function decimals(value: number): string {
  return String(Math.round(value * 100) / 100);
}

/** Bytes for people. */
export function size(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(1)} GB`;
  return bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.ceil(bytes / 1e3)} kB`;
}

function counted(parameters: number): string {
  if (parameters >= 1e9) return `${(parameters / 1e9).toFixed(2)} billion`;
  return parameters >= 1e6 ? `${(parameters / 1e6).toFixed(1)} million` : String(parameters);
}
