/** Groups of small trajectories for tests, every token of which can be told from the others. */
import type { Prompt } from "../../src/flow/prompt.ts";
import type { SampledTokens } from "../../src/flow/sampled-tokens.ts";
import type { Trajectory, TrajectoryEnd, TrajectoryGroup, Turn } from "../../src/flow/trajectory.ts";

export interface TurnFacts {
  readonly promptIds: readonly number[];
  readonly replyIds: readonly number[];
  readonly reward?: number;
  readonly stateKey?: string;
  readonly version?: number;
  /** The prompt as the other side of a distillation reads it. */
  readonly twinIds?: readonly number[];
}

export interface TrajectoryFacts {
  readonly turns: readonly TurnFacts[];
  /** Of the whole, beside what its turns gave. */
  readonly score?: number;
  readonly end?: TrajectoryEnd;
}

export function promptOf(id: string): Prompt {
  return { id, domain: "test", seed: 0, messages: [], truth: null, extra: {} };
}

/** The log-prob of a token is minus its id / 100, so that it can be recognized. */
export function turnOf({ promptIds, replyIds, reward = 0, stateKey, version = 0, twinIds }: TurnFacts): Turn {
  const logprobs = Float32Array.from(replyIds, (id) => -id / 100);
  const reply: SampledTokens = {
    tokenIds: Int32Array.from(replyIds),
    samplerLogprobs: logprobs,
    drawLogprobs: logprobs,
    modelLogprobs: logprobs,
    versions: new Int32Array(replyIds.length).fill(version),
    cacheVersions: new Int32Array(replyIds.length).fill(version),
  };
  return {
    promptIds: Int32Array.from(promptIds),
    ...(twinIds !== undefined && { twinPromptIds: Int32Array.from(twinIds) }),
    reply,
    replyText: "",
    messages: [],
    finish: "stop",
    reward,
    ...(stateKey !== undefined && { stateKey }),
    metrics: {},
    ...{ startedMs: 0, generateMs: 0, envMs: 0 },
  };
}

export function groupOf(id: string, trajectories: readonly TrajectoryFacts[]): TrajectoryGroup {
  const prompt = promptOf(id);
  return {
    id,
    prompt,
    trajectories: trajectories.map(({ turns, score = 0, end = { kind: "completed" } }, sampleIndex): Trajectory => {
      const fromTurns = turns.reduce((sum, { reward = 0 }) => sum + reward, 0);
      return {
        ...{ id: `${id}-${sampleIndex}`, groupId: id, prompt, sampleIndex, seed: 0, end, metrics: {} },
        turns: turns.map(turnOf),
        reward: { total: fromTurns + score, score, parts: {} },
        timings: { startedMs: 0, queuedMs: 0, generateMs: 0, envMs: 0, rewardMs: 0, totalMs: 0 },
      };
    }),
  };
}
