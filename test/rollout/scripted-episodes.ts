/** A scheduler without model and environments: prompts p0, p1, ..., and episodes that end as a script says. */
import type { PromptSource } from "../../src/data/prompt-source.ts";
import { RerollError } from "../../src/errors/reroll-error.ts";
import type { Prompt } from "../../src/flow/prompt.ts";
import type { TrajectoryEnd } from "../../src/flow/trajectory.ts";
import type { EpisodeTask, RunEpisode } from "../../src/rollout/episode.ts";
import { RolloutScheduler, type SchedulerOptions, type SchedulerParts } from "../../src/rollout/rollout-scheduler.ts";

export const completed: TrajectoryEnd = { kind: "completed" };

export function failed(message: string): TrajectoryEnd & { kind: "failed" } {
  return { kind: "failed", stage: "environment", error: new RerollError("FAILED", message) };
}

export function schedulerOf(
  options: SchedulerOptions,
  parts: Partial<SchedulerParts> & { runEpisode: RunEpisode },
): RolloutScheduler {
  return new RolloutScheduler({
    sources: [{ share: 1, source: numbered("p") }],
    seed: 1,
    clock: () => 0,
    ...parts,
    options,
  });
}

/** Prompts p0, p1, ... */
export function numbered(domain: string, size = Infinity): PromptSource {
  let next = 0;
  return {
    next: async (count) => {
      const ids = Array.from({ length: Math.max(0, Math.min(count, size - next)) }, (_, i) => next + i);
      next += ids.length;
      return ids.map((i): Prompt => ({ id: `${domain}${i}`, domain, seed: i, messages: [], truth: null, extra: {} }));
    },
    position: () => next,
    restore: async (position) => {
      next = position as number;
    },
  };
}

export interface EpisodeScript {
  /** Milliseconds until it ends. */
  readonly waits?: (task: EpisodeTask) => number;
  readonly end?: (task: EpisodeTask) => TrajectoryEnd;
  readonly reward?: (task: EpisodeTask) => number;
  readonly version?: () => number;
}

export function episodes(script: EpisodeScript) {
  let running = 0;
  let most = 0;
  let started = 0;
  const run: RunEpisode = async (task, control) => {
    started++;
    most = Math.max(most, ++running);
    const wasAborted = await sleep(script.waits?.(task) ?? 0, control.signal);
    running--;
    const end: TrajectoryEnd = wasAborted ? { kind: "aborted" } : (script.end?.(task) ?? completed);
    const total = script.reward?.(task) ?? 0;
    const { queuedMs, ...rest } = task;
    const versions = Int32Array.of(script.version?.() ?? 0);
    const reply = {
      tokenIds: Int32Array.of(1),
      samplerLogprobs: Float32Array.of(0),
      drawLogprobs: Float32Array.of(0),
      modelLogprobs: Float32Array.of(0),
      versions,
      cacheVersions: versions,
    };
    const turn = {
      promptIds: Int32Array.of(1),
      reply,
      replyText: "",
      messages: [],
      finish: "stop" as const,
      reward: total,
    };
    return {
      ...rest,
      turns: [{ ...turn, metrics: {}, startedMs: 0, generateMs: 0, envMs: 0 }],
      end,
      reward: { total, score: 0, parts: {} },
      metrics: {},
      timings: { startedMs: 0, queuedMs, generateMs: 0, envMs: 0, rewardMs: 0, totalMs: 0 },
    };
  };
  return Object.assign(run, { mostAtOnce: () => most, numStarted: () => started, numRunning: () => running });
}

function sleep(ms: number, until: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms);
    until.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}

/** Lets everything that can go on do so. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setTimeout(resolve, 1));
}
