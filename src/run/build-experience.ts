/** Builds from config the part between rollout and training. */

import { firstReplayGroup, joinReplays, numReplays } from "../experience/join-replays.ts";
import { buildLessons } from "../experience/lesson-builder.ts";
import { type Replay, ReplayBuffer } from "../experience/replay-buffer.ts";
import { weightsOf } from "../experience/replay-priority.ts";
import { type BuildOptions, buildSamples } from "../experience/sample-builder.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { JsonValue } from "../flow/prompt.ts";
import { splitPlayers } from "../flow/split-players.ts";
import type { SampleBatch, TokenSample } from "../flow/token-sample.ts";
import type { ExperiencePart } from "../loops/loop-parts.ts";
import { deriveSeed } from "../random/random.ts";
import { oldestVersionOf } from "../rollout/oldest-version.ts";
import { teacherNames } from "./open-teachers.ts";
import type { RunConfig } from "./run-config.ts";

/** Experience whose replay buffer can be saved. */
interface SavedExperience extends ExperiencePart {
  position(): JsonValue;
  restore(position: JsonValue): void;
}

export function buildExperience(config: RunConfig): SavedExperience {
  const { distillation, reflection } = config;
  const options: BuildOptions = {
    maxTokens: config.training.maxTokensPerMicrobatch,
    ...(distillation !== null && { teacherOf: teacherNames(distillation.teachers) }),
  };
  const built = config.replay === null ? withoutReplay(options) : withReplay(config, config.replay, options);
  return reflection === null ? built : withLessons(built, options);
}

function withoutReplay(options: BuildOptions): SavedExperience {
  return {
    build: (episodes, version) => {
      const { samples, metrics } = buildSamples(splitPlayers(episodes), options);
      return { batch: { samples, version }, metrics };
    },
    position: () => null,
    restore: () => {},
  };
}

/** Every batch also has the second tries of its fresh groups that succeeded. Lessons are not replayed. */
function withLessons(experience: SavedExperience, options: BuildOptions): SavedExperience {
  return {
    ...experience,
    build: (groups, version) => {
      const { batch, metrics } = experience.build(groups, version);
      const { lessons, metrics: learned } = buildLessons(groups, options);
      return { batch: { ...batch, lessons }, metrics: { ...metrics, ...learned } };
    },
  };
}

/** Every batch consists of the fresh groups and, once there are some, of replayed ones that make up `ratio` of it. */
function withReplay(
  { loop, seed }: RunConfig,
  replay: NonNullable<RunConfig["replay"]>,
  building: BuildOptions,
): SavedExperience {
  const { ratio, priority, ...options } = replay;
  const weights = weightsOf(priority);
  const buffer = new ReplayBuffer({ ...options, weights, betaDraws: loop.steps, seed: deriveSeed(seed, "replay") });
  let built: { readonly batch: SampleBatch; readonly idOf: ReadonlyMap<number, number | null> } | null = null;
  return {
    build: (episodes, version) => {
      const groups = splitPlayers(episodes);
      const { samples, metrics } = buildSamples(groups, building);
      // Drawn before the fresh groups are added, so that no group is in a batch twice.
      const replays = buffer.draw(numReplays(groups.length, ratio), version);
      const ids = buffer.add(
        groups.map((group, index) => ({
          group,
          samples: samples.filter((sample) => sample.group === index),
          version: oldestVersionOf(group.trajectories),
        })),
      );
      const batch = { samples: joinReplays(samples, replays), version };
      const replayIds = replays.map(({ id }, index): [number, number] => [firstReplayGroup(samples) + index, id]);
      built = { batch, idOf: new Map([...ids.entries(), ...replayIds]) };
      return { batch, metrics: { ...metrics, ...replayMetrics(replays, batch.samples.length, version, buffer) } };
    },
    onTrained: ({ tdErrors }) => {
      if (weights["td-error"] === 0 || tdErrors === undefined || built === null) return;
      const signals = meanByGroup(built.batch.samples, tdErrors);
      const known = [...signals].flatMap(([group, signal]) => {
        const id = built?.idOf.get(group) ?? null;
        return id === null ? [] : [{ id, signal }];
      });
      buffer.update(
        known.map(({ id }) => id),
        known.map(({ signal }) => signal),
      );
    },
    position: () => buffer.position(),
    restore: (position) => buffer.restore(position),
  };
}

/** The mean over the trajectories of each group, and within a forked trajectory over its rows. */
function meanByGroup(samples: readonly TokenSample[], values: Float32Array): ReadonlyMap<number, number> {
  const perTrajectory = meanBy(samples.map(({ trajectory }, row) => [trajectory, values[row]!]));
  const groupOf = new Map(samples.map(({ trajectory, group }) => [trajectory, group]));
  return meanBy([...perTrajectory].map(([trajectory, value]) => [groupOf.get(trajectory)!, value]));
}

function meanBy(pairs: readonly (readonly [key: number, value: number])[]): ReadonlyMap<number, number> {
  const sums = new Map<number, { readonly sum: number; readonly count: number }>();
  for (const [key, value] of pairs) {
    const { sum, count } = sums.get(key) ?? { sum: 0, count: 0 };
    sums.set(key, { sum: sum + value, count: count + 1 });
  }
  return new Map([...sums].map(([key, { sum, count }]) => [key, sum / count]));
}

function replayMetrics(
  replays: readonly Replay[],
  numSamples: number,
  version: number,
  { numTrajectories }: ReplayBuffer,
): Metrics {
  const numReplayed = replays.reduce((sum, { samples }) => sum + samples.length, 0);
  const mean = (pick: (replay: Replay) => number) =>
    replays.length === 0 ? 0 : replays.reduce((sum, replay) => sum + pick(replay), 0) / replays.length;
  return {
    "replay/share": numSamples === 0 ? 0 : numReplayed / numSamples,
    "replay/age": mean((replay) => version - replay.version),
    "replay/weight": mean((replay) => replay.weight),
    "replay/trajectories": numTrajectories,
  };
}
