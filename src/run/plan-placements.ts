/**
 * The sensible ways to put a run on a number of GPUs: memory per device and role, the time of a step, and the keys that ask for it. Pure.
 *
 * Refuses a run that fits in none of them, with the role that needs the most and the nearest change after which it would fit.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { apartMemory, movableRoles } from "./device-memory.ts";
import { engineSplitProblem, maySplit, ranksOf } from "./engine-shares.ts";
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
  const fitting = all.flatMap((tries) => firstFitting(tries, pool));
  if (fitting.length === 0) throw nothingFits(config, facts, pool, { expected, all });
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

/** Placements with as many trainers, those that cost the least first, with the other roles beside the trainer or elsewhere. */
interface Tries {
  readonly together: readonly PlacedRun[];
  readonly elsewhere: readonly PlacedRun[];
}

function firstFitting({ together, elsewhere }: Tries, pool: GpuPool): readonly PlacedRun[] {
  const found = [...together, ...elsewhere].find((placed) => fits(placed, pool));
  return found === undefined ? [] : [found];
}

/** By the number of trainers. How much memory a GPU has does not matter here. */
function allPlacements(
  config: RunConfig,
  facts: MemoryFacts,
  pool: GpuPool,
  expected: ExpectedTokens,
): readonly Tries[] {
  const { numGpus } = pool;
  const { tensor, context, expert, pipeline } = config.training.strategy;
  const numRanks = ranksOf(config.placement.engine);
  const canSpread = (numTrainers: number) =>
    numTrainers % (tensor * context * expert * pipeline) === 0 &&
    (numTrainers === numGpus ? numGpus : numGpus - numTrainers) % numRanks === 0;
  return [numGpus, ...powersBelow(numGpus)].filter(canSpread).flatMap((numTrainers) => {
    const runs = strategiesFor(config, numTrainers);
    const triesWith = (apart: ApartRoles | null) => {
      const numEngineGpus = numGpus - numTrainers - (apart?.numGpus ?? 0) || numTrainers;
      // Whole engines first: split ones decode slower.
      const engines = splitsFor(config, facts, numEngineGpus).filter((engine) => numEngineGpus % ranksOf(engine) === 0);
      const split = engines.flatMap((engine) =>
        runs.map((run) => ({ ...run, placement: { ...run.placement, engine } })),
      );
      return split.map((run) => placeOn(run, facts, pool, { expected, apart }));
    };
    return {
      together: triesWith(null),
      // Roles that are in the trainer's way have devices of their own, as few as let all fit.
      elsewhere: rolePlaces(config, facts, numGpus - numTrainers).flatMap(triesWith),
    };
  });
}

/** Roles with devices of their own, and how many those are. */
interface ApartRoles {
  readonly names: readonly ("reference" | "critic")[];
  readonly numGpus: number;
}

/** The roles that can leave the trainer, on one device, or on as many as the strategy spreads them over. */
function rolePlaces(config: RunConfig, facts: MemoryFacts, numFree: number): readonly ApartRoles[] {
  const names = movableRoles(config, facts);
  if (names.length === 0) return [];
  const { tensor, context, expert } = config.training.strategy;
  const partners = Math.max(tensor * context, context * expert);
  const counts = [1, 2, 4, 8].filter((count) => count <= numFree && (count === 1 || count % partners === 0));
  return counts.map((numGpus) => ({ names, numGpus }));
}

/** How engines are split: as the run file says, or where it says nothing also over the fewest GPUs that work. */
function splitsFor(
  config: RunConfig,
  { model }: MemoryFacts,
  numGpus: number,
): readonly RunConfig["placement"]["engine"][] {
  const { engine } = config.placement;
  if (ranksOf(engine) > 1 || !maySplit(config)) return [engine];
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

/** One placement: trainers on the first GPUs, then roles that are apart, and engines on the others, or with the trainers where there are none. */
function placeOn(
  config: RunConfig,
  facts: MemoryFacts,
  { numGpus }: GpuPool,
  { expected, apart }: { readonly expected: ExpectedTokens; readonly apart: ApartRoles | null },
): PlacedRun {
  const { ranks, strategy } = config.training;
  const numTaken = ranks + (apart?.numGpus ?? 0);
  const isEngineApart = numTaken < numGpus;
  const isEngineLent = numGpus === 1 && sharesWeights(config, true);
  const takesTurns = config.loop.type === "sync";
  const ranksPerEngine = ranksOf(config.placement.engine);
  const numEngines = (isEngineApart ? numGpus - numTaken : ranks) / ranksPerEngine;
  const isGathered = strategy.zero === 3;
  const place = { numTrainers: ranks, numEngines, ranksPerEngine, isApart: isEngineApart, isGathered };
  const seconds = phaseSeconds(config, facts, { expected, apart }, place);
  const { rollout, train, sync } = seconds;
  // On one set of GPUs, what runs at the same time shares them.
  const busy = !takesTurns && isEngineApart ? Math.max(rollout, train) : rollout + train;
  const device = (from: number, to: number, parts: readonly MemoryPart[], isShared = false) => ({
    devices: `GPUs ${range(from, to)}`,
    parts,
    bytes: peakBytes(parts, isShared && takesTurns),
  });
  const names: readonly string[] = apart?.names ?? [];
  const parts = estimateRankMemory(config, { ...facts, isEngineLent }).filter(({ owner }) => !names.includes(owner));
  const isEngine = ({ owner }: MemoryPart) => owner === "engine";
  const ofRoles = apart?.names.flatMap((name) => apartMemory(name, config, facts, apart.numGpus)) ?? [];
  const engineDevices = isEngineApart ? range(numTaken, numGpus) : range(0, ranks);
  const roleKeys = names.map((name) => `, placement.${name}.devices ${JSON.stringify(range(ranks, numTaken))}`);
  return {
    keys: `training.ranks ${ranks}${strategyWords(strategy)}, placement.engine.devices ${JSON.stringify(engineDevices)}${splitWords(config.placement.engine)}${roleKeys.join("")}`,
    devices: [
      isEngineApart
        ? device(
            0,
            ranks,
            parts.filter((part) => !isEngine(part)),
          )
        : device(0, ranks, parts, true),
      ...(apart === null ? [] : [device(ranks, numTaken, ofRoles)]),
      ...(isEngineApart ? [device(numTaken, numGpus, parts.filter(isEngine))] : []),
    ],
    seconds,
    stepSeconds: busy + sync,
  };
}

/** Roles that are apart measure and learn while the trainer does. */
function phaseSeconds(
  config: RunConfig,
  facts: MemoryFacts,
  { expected, apart }: { readonly expected: ExpectedTokens; readonly apart: ApartRoles | null },
  place: Parameters<typeof stepSeconds>[2],
): StepSeconds {
  const work = workOf(config, facts, expected);
  if (apart === null) return stepSeconds(facts.model, work, place);
  const others = { numMeasured: apart.names.length, numTrained: apart.names.includes("critic") ? 1 : 0 };
  const own = { numMeasured: work.numMeasured - others.numMeasured, numTrained: work.numTrained - others.numTrained };
  const seconds = stepSeconds(facts.model, { ...work, ...own }, place);
  const elsewhere = stepSeconds(facts.model, { ...work, ...others }, { ...place, numTrainers: apart.numGpus });
  return { ...seconds, train: Math.max(seconds.train, elsewhere.train) };
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

/** Names the largest device of the placement that needs the least, so that GPUs of that size are enough. */
function nothingFits(
  config: RunConfig,
  facts: MemoryFacts,
  pool: GpuPool,
  { expected, all }: { readonly expected: ExpectedTokens; readonly all: readonly Tries[] },
): RerollError {
  const [largest] = all
    .flatMap(({ together, elsewhere }) => [...together, ...elsewhere])
    .map(({ devices }) => devices.toSorted((a, b) => b.bytes - a.bytes)[0]!)
    .toSorted((a, b) => a.bytes - b.bytes);
  const [role, bytes] = rolesOf(largest!.parts)[0]!;
  const nearest = nearestChange(config, (changed) =>
    allPlacements(changed, facts, pool, expected).some((tries) => firstFitting(tries, pool).length > 0),
  );
  return new RerollError(
    "NOT_ENOUGH_MEMORY",
    `This run fits in no placement on ${pool.numGpus} GPUs of ${size(pool.memoryBytes)}: a device needs ${size(largest!.bytes)} in the placement that needs the least, most of it the ${role} with ${size(bytes)}. ` +
      (nearest === null
        ? "Take a smaller model, a shorter rollout.contextLength, or GPUs with more memory."
        : `It fits with ${nearest}.`),
    { role, bytes: largest!.bytes, memoryBytes: pool.memoryBytes },
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
