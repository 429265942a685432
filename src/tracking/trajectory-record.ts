/**
 * A trajectory as a viewer needs it: a line of `trajectories/step-000123.jsonl`.
 *
 * In: what a rollout gave, and what training saw of it. Out: plain data. Log-probs are rounded to 4 digits after the point; nothing
 * else that a rollout gave is lost.
 */
import { redactText } from "../errors/redact-text.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { SampledTokens } from "../flow/sampled-tokens.ts";
import type {
  SecondTry,
  Trajectory,
  TrajectoryGroup,
  TrajectoryReward,
  TrajectoryTimings,
  Turn,
} from "../flow/trajectory.ts";
import { meanAdvantage, numbersOfTurns, type TrainedSamples, type TurnNumbers } from "./trajectory-record-numbers.ts";

/** What a step's rollout gave, as far as it is recorded. The result of a rollout fits. */
export interface RecordedRollout {
  readonly groups: readonly TrajectoryGroup[];
  readonly report: {
    readonly failed: readonly Trajectory[];
    readonly filtered: readonly { readonly group: TrajectoryGroup; readonly reason: string }[];
  };
  /** Absent where training did not look at it, or was not asked. */
  readonly trained?: TrainedSamples;
}

/** What can become of a trajectory that is recorded. */
export const trajectoryFates = ["delivered", "baseline", "filtered", "failed"] as const;

type TrajectoryFate = (typeof trajectoryFates)[number];

/** One trajectory. */
export interface TrajectoryRecord {
  readonly step: number;
  readonly id: string;
  readonly groupId: string;
  readonly sampleIndex: number;
  readonly seed: number;
  /** Whether it was trained on, and if not, why: a baseline is the greedy trajectory that others were compared with. */
  readonly fate: TrajectoryFate;
  readonly reason: string | null;
  readonly prompt: {
    readonly id: string;
    readonly domain: string;
    readonly messages: readonly unknown[];
    readonly tools: readonly unknown[];
    readonly truth: JsonValue;
  };
  readonly turns: readonly TurnRecord[];
  readonly end: EndRecord;
  readonly reward: TrajectoryReward;
  /** The mean over its tokens that the loss counts. Absent where it was not trained on, or training did not say. */
  readonly advantage?: number;
  /** The state after the last turn, as a key. Absent where the environment gave none. */
  readonly finalStateKey?: string;
  readonly metrics: Readonly<Record<string, number>>;
  readonly timings: TrajectoryTimings;
  /** Another try after a reflection, in a run with reflection. */
  readonly secondTry?: Pick<TrajectoryRecord, "turns" | "end" | "reward"> & Pick<SecondTry, "reflection" | "isLearned">;
}

/** One reply, and what it answered. What training saw of it is there where the trajectory was trained on and training said it. */
export interface TurnRecord extends Partial<TurnNumbers> {
  readonly messages: readonly unknown[];
  /** The reply as the client of an agent reads it, and the tools that the model was offered. Absent where no agent played. */
  readonly chat?: { readonly reply: unknown; readonly tools: readonly unknown[] };
  /** Who played it, in an episode with several players. */
  readonly player?: string;
  readonly replyText: string;
  readonly finish: Turn["finish"];
  /** The prompt starts with this many tokens of the turn before, prompt and reply; `promptIds` are those after them. */
  readonly promptFrom: number;
  readonly promptIds: readonly number[];
  readonly tokenIds: readonly number[];
  readonly samplerLogprobs: readonly number[];
  /** Log-probs of the distribution that the tokens were drawn from; absent where nothing truncated it. */
  readonly drawLogprobs?: readonly number[];
  readonly versions: readonly number[];
  readonly reward: number;
  readonly stateKey: string | null;
  readonly metrics: Readonly<Record<string, number>>;
  readonly startedMs: number;
  readonly generateMs: number;
  readonly envMs: number;
}

/** How a trajectory ended; of an error, its code and message. */
type EndRecord =
  | { readonly kind: "completed" | "aborted" }
  | { readonly kind: "truncated"; readonly limit: string }
  | { readonly kind: "failed"; readonly stage: string; readonly code: string; readonly message: string };

/** All trajectories of a rollout as records: groups in order, those of at most `maxGroups` of each fate. */
export function* trajectoryRecords(
  step: number,
  { groups, report, trained }: RecordedRollout,
  maxGroups: number,
): Generator<TrajectoryRecord> {
  const numbers = trained === undefined ? undefined : numbersOfTurns(groups, trained);
  for (const { trajectories, greedy } of groups.slice(0, maxGroups)) {
    if (greedy !== undefined) yield toRecord(step, greedy, "baseline", "greedy");
    for (const trajectory of trajectories) yield toRecord(step, trajectory, "delivered", null, numbers);
  }
  for (const { group, reason } of report.filtered.slice(0, maxGroups)) {
    if (group.greedy !== undefined) yield toRecord(step, group.greedy, "filtered", reason);
    for (const trajectory of group.trajectories) yield toRecord(step, trajectory, "filtered", reason);
  }
  const shown = new Set([...new Set(report.failed.map(({ groupId }) => groupId))].slice(0, maxGroups));
  for (const trajectory of report.failed) {
    if (shown.has(trajectory.groupId)) yield toRecord(step, trajectory, "failed", failureOf(trajectory));
  }
}

function toRecord(
  step: number,
  trajectory: Trajectory,
  fate: TrajectoryRecord["fate"],
  reason: string | null,
  numbers: ReadonlyMap<Turn, TurnNumbers> = new Map(),
): TrajectoryRecord {
  const { id, groupId, sampleIndex, seed, prompt, turns, reward, metrics, timings, secondTry } = trajectory;
  const finalStateKey = turns.at(-1)?.nextStateKey;
  const advantage = meanAdvantage(turns.map((turn) => numbers.get(turn)));
  return {
    step,
    id,
    groupId,
    sampleIndex,
    seed,
    fate,
    reason,
    prompt: {
      id: prompt.id,
      domain: prompt.domain,
      messages: prompt.messages,
      tools: prompt.tools ?? [],
      truth: prompt.truth,
    },
    turns: turns.map((turn, i) => ({ ...toTurn(turn, turns[i - 1]), ...numbers.get(turn) })),
    end: toEnd(trajectory.end),
    reward,
    ...(advantage !== undefined && { advantage }),
    ...(finalStateKey !== undefined && { finalStateKey }),
    metrics,
    timings,
    ...(secondTry !== undefined && { secondTry: toSecondTry(secondTry) }),
  };
}

function toSecondTry({ reflection, isLearned, turns, end, reward }: SecondTry): TrajectoryRecord["secondTry"] & object {
  return { reflection, isLearned, turns: turns.map((turn, i) => toTurn(turn, turns[i - 1])), end: toEnd(end), reward };
}

function toTurn(turn: Turn, before: Turn | undefined): TurnRecord {
  const { messages, replyText, finish, reply, promptIds, reward, stateKey, metrics } = turn;
  const promptFrom = before === undefined ? 0 : sharedLength(promptIds, before);
  return {
    messages,
    ...(turn.chat !== undefined && { chat: turn.chat }),
    ...(turn.player !== undefined && { player: turn.player }),
    replyText,
    finish,
    promptFrom,
    promptIds: [...promptIds.subarray(promptFrom)],
    tokenIds: [...reply.tokenIds],
    samplerLogprobs: Array.from(reply.samplerLogprobs, fourPlaces),
    ...(isTruncatedDraw(reply) && { drawLogprobs: Array.from(reply.drawLogprobs, fourPlaces) }),
    versions: [...reply.versions],
    reward,
    stateKey: stateKey ?? null,
    metrics,
    startedMs: turn.startedMs,
    generateMs: turn.generateMs,
    envMs: turn.envMs,
  };
}

/** How many tokens of the turn before the prompt starts with. */
function sharedLength(promptIds: Int32Array, before: Turn): number {
  const numPrompt = before.promptIds.length;
  const length = Math.min(promptIds.length, numPrompt + before.reply.tokenIds.length);
  const tokenOf = (i: number) => (i < numPrompt ? before.promptIds[i] : before.reply.tokenIds[i - numPrompt]);
  let shared = 0;
  while (shared < length && promptIds[shared] === tokenOf(shared)) shared++;
  return shared;
}

function toEnd(end: Trajectory["end"]): EndRecord {
  if (end.kind !== "failed") return end;
  return { kind: "failed", stage: end.stage, code: end.error.code, message: redactText(end.error.message) };
}

function failureOf({ end }: Trajectory): string | null {
  return end.kind === "failed" ? `${end.stage}: ${redactText(end.error.message)}` : null;
}

function isTruncatedDraw({ drawLogprobs, samplerLogprobs }: SampledTokens): boolean {
  return drawLogprobs.some((logprob, i) => logprob !== samplerLogprobs[i]);
}

function fourPlaces(value: number): number {
  return Math.round(value * 1e4) / 1e4;
}
