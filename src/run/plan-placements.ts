/**
 * The sensible ways to put a run on a number of GPUs: memory per device and role, the time of a step, and the keys that ask for it. Pure.
 *
 * Refuses a run that fits in none of them, with the role that needs the most and the nearest change after which it would fit.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { engineSplitProblem, ranksOf } from "./engine-shares.ts";
import { type MemoryFacts, type MemoryPart, microbatchTokens, peakBytes } from "./estimate-memory.ts";
import { nearestChange } from "./memory-changes.ts";
import { size } from "./plan-run.ts";
import { estimateRankMemory, inPasses } from "./rank-memory.ts";
import type { RunConfig } from "./run-config.ts";
import { sharesWeights } from "./shares-weights.ts";
import { type StepSeconds, type StepWork, stepSeconds } from "./step-time.ts";

/** GPUs of one kind. */
export interface GpuPool {
  readonly numGpus: number;
  readonly memoryBytes: number;
}

/** Tokens of an average trajectory, which no run file says. */
export interface ExpectedTokens {
  readonly promptTokens: number;
  readonly replyTokens: number;
}

interface PlacedRun {
  /** As a run file asks for it. */
  readonly keys: string;
  /** What a device of each kind holds, by role; the devices of a kind are alike. */
  readonly devices: readonly DevicePlan[];
  readonly seconds: StepSeconds;
  /** Phases that overlap count once. */
  readonly stepSeconds: number;
}

interface DevicePlan {
  readonly devices: string;
  readonly parts: readonly MemoryPart[];
  readonly bytes: number;
}

/** Placements that fit, the fastest first. Throws where there is none. */
export function planPlacements(
  config: RunConfig,
  facts: MemoryFacts,
  pool: GpuPool,
  expected: ExpectedTokens,
): readonly PlacedRun[] {
  const all = allPlacements(config, facts, pool, expected);
  if (all.length === 0) throw nowhere(config, pool);
  const fitting = all.filter((placed) => fits(placed, pool));
  if (fitting.length === 0) throw nothingFits(config, facts, pool, expected);
  return fitting.toSorted((a, b) => a.stepSeconds - b.stepSeconds);
}

/** A table for people. */
export function placementLines(placements: readonly PlacedRun[], { memoryBytes }: GpuPool): string[] {
  const seconds = (value: number) => `${value.toPrecision(2)} s`;
  return placements.flatMap(({ keys, devices, seconds: phases, stepSeconds: whole }, i) => [
    `${i + 1}. ${keys}: ${seconds(whole)} per step (rollout ${seconds(phases.rollout)}, training ${seconds(phases.train)}, weights ${seconds(phases.sync)})`,
    ...devices.map(
      (device) =>
        `   ${device.devices}: ${size(device.bytes)} of ${size(memoryBytes)}: ${rolesOf(device.parts)
          .map(([owner, bytes]) => `${owner} ${size(bytes)}`)
          .join(", ")}`,
    ),
  ]);
}

function allPlacements(
  config: RunConfig,
  facts: MemoryFacts,
  pool: GpuPool,
  expected: ExpectedTokens,
): readonly PlacedRun[] {
  const { numGpus } = pool;
  const { tensor, context, expert, pipeline } = config.training.strategy;
  const numRanks = ranksOf(config.placement.engine);
  const canSpread = (numTrainers: number) =>
    numTrainers % (tensor * context * expert * pipeline) === 0 &&
    (numTrainers === numGpus ? numGpus : numGpus - numTrainers) % numRanks === 0;
  return [numGpus, ...powersBelow(numGpus)].filter(canSpread).map((numTrainers) => {
    const isApart = numTrainers < numGpus;
    const numEngineGpus = isApart ? numGpus - numTrainers : numGpus;
    const runs = strategiesFor(config, numTrainers);
    // Whole engines first: split ones decode slower.
    const split = splitsFor(config, facts, numEngineGpus).flatMap((engine) =>
      runs.map((run) => ({ ...run, placement: { ...run.placement, engine } })),
    );
    const tries = split.map((run) => placeOn(run, facts, pool, { expected, isApart }));
    return tries.find((placed) => fits(placed, pool)) ?? tries.at(-1)!;
  });
}

/** How engines are split: as the run file says, or where it says nothing also over the fewest GPUs that work. */
function splitsFor(
  config: RunConfig,
  { model }: MemoryFacts,
  numGpus: number,
): readonly RunConfig["placement"]["engine"][] {
  const { engine } = config.placement;
  if (ranksOf(engine) > 1 || config.engine.remote !== null || config.model.quantization !== null || config.exact)
    return [engine];
  const split = [2, 4, 8]
    .filter((tensor) => numGpus % tensor === 0)
    .map((tensor) => ({ ...engine, tensor, workers: null }))
    .filter((one) => engineSplitProblem({ placement: { ...config.placement, engine: one } }, model) === null);
  return [engine, ...split];
}

/** The run with its strategy, or where it has none with each that shards, those that cost the least first. */
function strategiesFor(config: RunConfig, ranks: number): readonly RunConfig[] {
  const { training, distillation, reflection } = config;
  const { zero, tensor, context, expert, pipeline, offload } = training.strategy;
  const asked = { ...config, training: { ...training, ranks } };
  const isChosen = zero > 0 || tensor * context * expert * pipeline > 1 || offload !== "none";
  if (ranks === 1 || isChosen || training.optimizer.moments === "8-bit") return [asked];
  const stages = distillation !== null || reflection !== null ? ([1] as const) : ([1, 2, 3] as const);
  const sharded = stages.map((stage) => ({ ...training, ranks, strategy: { ...training.strategy, zero: stage } }));
  return [asked, ...sharded.map((one) => ({ ...config, training: one }))];
}

/** One placement: trainers on the first GPUs, and engines on the others, or on all where nothing is apart. */
function placeOn(
  config: RunConfig,
  facts: MemoryFacts,
  { numGpus }: GpuPool,
  { expected, isApart }: { readonly expected: ExpectedTokens; readonly isApart: boolean },
): PlacedRun {
  const { ranks, strategy } = config.training;
  const isEngineLent = numGpus === 1 && sharesWeights(config, true);
  const parts = estimateRankMemory(config, { ...facts, isEngineLent });
  const takesTurns = config.loop.type === "sync";
  const ranksPerEngine = ranksOf(config.placement.engine);
  const numEngines = (isApart ? numGpus - ranks : numGpus) / ranksPerEngine;
  const place = { numTrainers: ranks, numEngines, ranksPerEngine, isApart, isGathered: strategy.zero === 3 };
  const seconds = stepSeconds(facts.model, workOf(config, facts, expected), place);
  const { rollout, train, sync } = seconds;
  // On one set of GPUs, what runs at the same time shares them.
  const busy = !takesTurns && isApart ? Math.max(rollout, train) : rollout + train;
  const device = (from: number, to: number, own: readonly MemoryPart[]) => ({
    devices: `GPUs ${range(from, to)}`,
    parts: own,
    bytes: peakBytes(own, !isApart && takesTurns),
  });
  const isEngine = ({ owner }: MemoryPart) => owner === "engine";
  const ofTrainer = parts.filter((part) => !isEngine(part));
  const engineDevices = range(isApart ? ranks : 0, numGpus);
  return {
    keys: `training.ranks ${ranks}${strategyWords(strategy)}, placement.engine.devices ${JSON.stringify(engineDevices)}${splitWords(config.placement.engine)}`,
    devices: isApart
      ? [device(0, ranks, ofTrainer), device(ranks, numGpus, parts.filter(isEngine))]
      : [device(0, numGpus, parts)],
    seconds,
    stepSeconds: busy + sync,
  };
}

/** As in ", tensor 2". */
function splitWords({ tensor, expert }: RunConfig["placement"]["engine"]): string {
  return `${tensor > 1 ? `, tensor ${tensor}` : ""}${expert > 1 ? `, expert ${expert}` : ""}`;
}

/** As in " with strategy { zero: 2 }". */
function strategyWords(strategy: RunConfig["training"]["strategy"]): string {
  const { zero, tensor, context, expert, pipeline, offload } = strategy;
  const words = [
    ...(zero > 0 ? [`zero: ${zero}`] : []),
    ...(tensor > 1 ? [`tensor: ${tensor}`] : []),
    ...(context > 1 ? [`context: ${context}`] : []),
    ...(expert > 1 ? [`expert: ${expert}`] : []),
    ...(pipeline > 1 ? [`pipeline: ${pipeline}`] : []),
    ...(offload === "none" ? [] : [`offload: "${offload}"`]),
  ];
  return words.length === 0 ? "" : ` with strategy { ${words.join(", ")} }`;
}

/** The time of a step where every role is on as many GPUs. */
export function stepSecondsOf(
  config: RunConfig,
  facts: MemoryFacts,
  expected: ExpectedTokens,
  numGpus: number,
): StepSeconds {
  const place = { numTrainers: numGpus, numEngines: numGpus, isApart: false };
  return stepSeconds(facts.model, workOf(config, facts, expected), place);
}

function workOf(config: RunConfig, facts: MemoryFacts, expected: ExpectedTokens): StepWork {
  const { rollout, training, model, engine } = config;
  return {
    ...expected,
    trajectories: rollout.groupsPerStep * rollout.groupSize,
    groupSize: rollout.groupSize,
    maxRunning: engine.maxRunning ?? Math.min(256, rollout.maxInFlight),
    recomputes: inPasses(training).recompute,
    microbatchTokens: microbatchTokens(config),
    numMeasured: (facts.needsReference ? 1 : 0) + (facts.needsAnchor === false ? 0 : 1) + (facts.hasCritic ? 1 : 0),
    numTrained: facts.hasCritic ? 2 : 1,
    hasAdapters: model.lora !== null,
  };
}

function fits({ devices }: PlacedRun, { memoryBytes }: GpuPool): boolean {
  return devices.every(({ bytes }) => bytes <= memoryBytes);
}

function nowhere({ training: { strategy }, placement }: RunConfig, { numGpus }: GpuPool): RerollError {
  const { tensor, context, expert, pipeline } = strategy;
  return new RerollError(
    "NO_DEVICE",
    `${numGpus} GPUs cannot be dealt out to ranks in groups of ${tensor * context * expert * pipeline} (training.strategy) and engines of ${ranksOf(placement.engine)} (placement.engine). Plan for another number with --gpus, or lower tensor and the others.`,
  );
}

function nothingFits(config: RunConfig, facts: MemoryFacts, pool: GpuPool, expected: ExpectedTokens): RerollError {
  const [placed] = allPlacements(config, facts, pool, expected)
    .flatMap(({ devices }) => devices)
    .filter(({ bytes }) => bytes > pool.memoryBytes)
    .toSorted((a, b) => a.bytes - b.bytes);
  const [role, bytes] = rolesOf(placed!.parts)[0]!;
  const nearest = nearestChange(config, (changed) =>
    allPlacements(changed, facts, pool, expected).some((one) => fits(one, pool)),
  );
  return new RerollError(
    "NOT_ENOUGH_MEMORY",
    `This run fits in no placement on ${pool.numGpus} GPUs of ${size(pool.memoryBytes)}: a device needs ${size(placed!.bytes)}, most of it the ${role} with ${size(bytes)}. ` +
      (nearest === null
        ? "Take a smaller model, a shorter rollout.contextLength, or GPUs with more memory."
        : `It fits with ${nearest}.`),
    { role, bytes: placed!.bytes, memoryBytes: pool.memoryBytes },
  );
}

/** Roles with their bytes, the largest first. */
function rolesOf(parts: readonly MemoryPart[]): readonly [MemoryPart["owner"], number][] {
  const sums = new Map<MemoryPart["owner"], number>();
  for (const { owner, bytes } of parts) sums.set(owner, (sums.get(owner) ?? 0) + bytes);
  return [...sums].toSorted(([, a], [, b]) => b - a);
}

function range(from: number, to: number): string {
  return to - from === 1 ? String(from) : `${from}-${to - 1}`;
}

function powersBelow(count: number): readonly number[] {
  return [1, 2, 4, 8, 16, 32, 64, 128].filter((power) => power < count);
}
