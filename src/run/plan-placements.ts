/**
 * The sensible ways to put a run on a number of GPUs: memory per device and role, the time of a step, and the keys that ask for it. Pure.
 *
 * Refuses a run that fits in none of them, with the role that needs the most and the nearest change after which it would fit.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { estimateMemory, type MemoryFacts, type MemoryPart, peakBytes } from "./estimate-memory.ts";
import { size } from "./plan-run.ts";
import type { RunConfig } from "./run-config.ts";
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
  const fitting = allPlacements(config, facts, pool, expected).filter((placed) => fits(placed, pool));
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
  { numGpus }: GpuPool,
  expected: ExpectedTokens,
): readonly PlacedRun[] {
  const parts = estimateMemory(config, facts);
  const work = workOf(config, facts, expected);
  const takesTurns = config.loop.type === "sync";
  const time = (place: Parameters<typeof stepSeconds>[2]) => {
    const seconds = stepSeconds(facts.model, work, place);
    const { rollout, train, sync } = seconds;
    // On one set of GPUs, what runs at the same time shares them.
    const overlaps = !takesTurns && place.isApart;
    return { seconds, stepSeconds: (overlaps ? Math.max(rollout, train) : rollout + train) + sync };
  };
  const together: PlacedRun = {
    keys: `training.ranks ${numGpus}, placement.engine.devices ${JSON.stringify(range(0, numGpus))}`,
    devices: [{ devices: `GPUs ${range(0, numGpus)}`, parts, bytes: peakBytes(parts, takesTurns) }],
    ...time({ numTrainers: numGpus, numEngines: numGpus, isApart: false }),
  };
  const apart = powersBelow(numGpus).map((numTrainers): PlacedRun => {
    const device = (from: number, to: number, own: readonly MemoryPart[]) => ({
      devices: `GPUs ${range(from, to)}`,
      parts: own,
      bytes: peakBytes(own, false),
    });
    const isEngine = ({ owner }: MemoryPart) => owner === "engine";
    return {
      keys: `training.ranks ${numTrainers}, placement.engine.devices ${JSON.stringify(range(numTrainers, numGpus))}`,
      devices: [
        device(
          0,
          numTrainers,
          parts.filter((part) => !isEngine(part)),
        ),
        device(numTrainers, numGpus, parts.filter(isEngine)),
      ],
      ...time({ numTrainers, numEngines: numGpus - numTrainers, isApart: true }),
    };
  });
  return [together, ...apart];
}

function workOf(config: RunConfig, facts: MemoryFacts, expected: ExpectedTokens): StepWork {
  const { rollout, training, model, engine } = config;
  return {
    ...expected,
    trajectories: rollout.groupsPerStep * rollout.groupSize,
    groupSize: rollout.groupSize,
    maxRunning: engine.maxRunning ?? Math.min(256, rollout.maxInFlight),
    recomputes: training.recompute,
    // Several updates per step need the log-probs from before the first.
    numMeasured: (facts.needsReference ? 1 : 0) + (training.minibatch > 0 ? 1 : 0),
    numTrained: facts.hasCritic ? 2 : 1,
    hasAdapters: model.lora !== null,
  };
}

function fits({ devices }: PlacedRun, { memoryBytes }: GpuPool): boolean {
  return devices.every(({ bytes }) => bytes <= memoryBytes);
}

/** Changes that save memory, those that cost the least first. */
const changes: readonly { readonly words: string; readonly make: (config: RunConfig) => RunConfig }[] = [
  {
    words: "training.recompute: true",
    make: (config) => ({ ...config, training: { ...config.training, recompute: true } }),
  },
  {
    words: 'training.optimizer.moments: "8-bit"',
    make: (config) => ({
      ...config,
      training: { ...config.training, optimizer: { ...config.training.optimizer, moments: "8-bit" } },
    }),
  },
  {
    words: "model.lora: { rank: 16 }",
    make: (config) => ({
      ...config,
      model: { ...config.model, lora: { rank: 16, alpha: 32, targets: "all-linear" } },
    }),
  },
];

/** The first change, or the first few of them together, after which there is a placement; more GPUs of this kind where none helps. */
function nearestChange(config: RunConfig, fitsAfter: (changed: RunConfig) => boolean): string | null {
  const single = changes.find(({ make }) => fitsAfter(make(config)));
  if (single !== undefined) return single.words;
  let changed = config;
  for (const [i, { make }] of changes.entries()) {
    changed = make(changed);
    if (fitsAfter(changed))
      return changes
        .slice(0, i + 1)
        .map(({ words }) => words)
        .join(" with ");
  }
  return null;
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
