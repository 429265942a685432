/**
 * Builds rows from trajectories: token sequences to train on, of type `TokenSample`.
 *
 * Turns whose prompt extends the tokens before them are one row; where a prompt breaks off (another context, or a
 * template that rewrites history) a new row is forked. Every reward is placed once, on the turn that earned it, so that
 * the rewards of a trajectory's rows add up to its total. Trajectories that failed or were aborted give no rows.
 */
import { joinIds } from "../flow/join-arrays.ts";
import type { Metrics } from "../flow/metrics.ts";
import { checkPrefix } from "../flow/prefix-check.ts";
import type { GreedyOutcome, RowTeacher, TokenSample } from "../flow/token-sample.ts";
import type { Trajectory, TrajectoryGroup, Turn } from "../flow/trajectory.ts";

export interface BuildOptions {
  /** Rows that are longer would not fit a forward pass: they are left out and counted. Default: none are. */
  readonly maxTokens?: number;
  /** The teacher of a domain's rows; null for none. Default: none has one. */
  readonly teacherOf?: (domain: string) => string | null;
}

interface BuiltSamples {
  readonly samples: readonly TokenSample[];
  readonly metrics: Metrics;
}

export function buildSamples(groups: readonly TrajectoryGroup[], options: BuildOptions = {}): BuiltSamples {
  const { maxTokens = Infinity, teacherOf = () => null } = options;
  const samples: TokenSample[] = [];
  let numTrajectories = 0;
  let numForks = 0;
  let numTooLong = 0;
  let numUntaught = 0;
  groups.forEach((group, index) => {
    const name = teacherOf(group.prompt.domain);
    const greedy = group.greedy && { greedy: outcomeOf(group.greedy) };
    const trained = group.trajectories
      .filter(({ end }) => end.kind !== "failed" && end.kind !== "aborted")
      .map((trajectory) => {
        const runs = splitTurns(trajectory.turns);
        const fitting = runs.filter((run) => lengthOf(run) <= maxTokens);
        numForks += Math.max(0, runs.length - 1);
        numTooLong += runs.length - fitting.length;
        return { trajectory, fitting };
      });
    const nextRow = rowMemory(trained.flatMap(({ fitting }) => fitting.map(lengthOf)));
    for (const { trajectory, fitting } of trained) {
      const rewardOf = creditTurns(trajectory, new Set(fitting.flat()));
      const { domain } = group.prompt;
      const place = { group: index, trajectory: numTrajectories++, domain, ...greedy };
      for (const run of fitting) {
        const row = joinTurns(run, nextRow(), rewardOf, trajectory, place);
        const teacher = name === null ? null : teacherOfRow(name, run, row, maxTokens);
        if (name !== null && teacher === null) numUntaught++;
        samples.push(teacher === null ? row : { ...row, teacher });
      }
    }
  });
  return {
    samples,
    metrics: {
      "experience/rows": samples.length,
      "experience/forks": numForks,
      "experience/too_long": numTooLong,
      "experience/tokens": samples.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
      "experience/loss_tokens": samples.reduce((sum, { lossMask }) => sum + count(lossMask), 0),
      ...(options.teacherOf !== undefined && { "distillation/untaught_rows": numUntaught }),
    },
  };
}

/**
 * Runs of turns that continue each other's tokens. Turns without a single sampled token are left out: there is nothing
 * to train on.
 */
export function splitTurns(turns: readonly Turn[]): readonly (readonly Turn[])[] {
  const runs: Turn[][] = [];
  for (const turn of turns) {
    if (turn.reply.tokenIds.length === 0) continue;
    const run = runs.at(-1);
    if (run !== undefined && extendsTokens(run.at(-1)!, turn)) run.push(turn);
    else runs.push([turn]);
  }
  return runs;
}

function extendsTokens({ promptIds, reply }: Turn, next: Turn): boolean {
  return checkPrefix(joinIds([promptIds, reply.tokenIds]), next.promptIds).kind === "extends";
}

/**
 * What the teacher of a row reads. Null where the template makes other tokens of what follows the context, or where there are too many
 * for a forward pass: then nobody measures the row.
 */
function teacherOfRow(name: string, run: readonly Turn[], row: TokenSample, maxTokens: number): RowTeacher | null {
  const logprobs = run.some((turn) => turn.teacherLogprobs !== undefined)
    ? new Float32Array(row.tokenIds.length)
    : null;
  for (const { promptIds, teacherLogprobs } of run) {
    if (teacherLogprobs !== undefined) logprobs?.set(teacherLogprobs, promptIds.length);
  }
  const twin = run.at(-1)!.twinPromptIds === undefined ? null : twinPrompt(run, maxTokens);
  if (run.at(-1)!.twinPromptIds !== undefined && twin === null) return null;
  return { name, ...(twin !== null && { promptIds: twin }), ...(logprobs !== null && { logprobs }) };
}

/** The twin's tokens before the first reply of a run, if those behind it are the same in both and the whole fits; else null. */
export function twinPrompt(run: readonly Turn[], maxTokens: number): Int32Array | null {
  const [first, last] = [run[0]!, run.at(-1)!];
  const [start, twin] = [first.promptIds, last.twinPromptIds];
  const promptIds = first.twinPromptIds;
  if (promptIds === undefined || twin === undefined) return null;
  if (twin.length + last.reply.tokenIds.length > maxTokens) return null;
  const rest = last.promptIds.subarray(start.length);
  const isSame = twin.length === promptIds.length + rest.length && promptIds.every((id, i) => id === twin[i]);
  return isSame && rest.every((id, i) => id === twin[promptIds.length + i]) ? promptIds : null;
}

function lengthOf(run: readonly Turn[]): number {
  const last = run.at(-1)!;
  return last.promptIds.length + last.reply.tokenIds.length;
}

/**
 * The reward of each turn that is trained on. The reward of any other turn goes to the trained turn before it, which
 * led to it, or to the first trained turn if there is none before; the score of the whole trajectory goes to the last.
 */
function creditTurns({ turns, reward }: Trajectory, isTrained: ReadonlySet<Turn>): ReadonlyMap<Turn, number> {
  const credited = new Map<Turn, number>();
  const first = turns.find((turn) => isTrained.has(turn));
  if (first === undefined) return credited;
  let last = first;
  for (const turn of turns) {
    if (isTrained.has(turn)) last = turn;
    credited.set(last, (credited.get(last) ?? 0) + turn.reward);
  }
  return credited.set(last, credited.get(last)! + reward.score);
}

/** What a trajectory earned, where each reward would stand if it were trained on. */
function outcomeOf(trajectory: Trajectory): GreedyOutcome {
  const { turns, reward, end } = trajectory;
  const credited = creditTurns(trajectory, new Set(splitTurns(turns).flat()));
  return {
    rewards: credited.size === 0 ? [reward.total] : [...credited.values()],
    numTokens: turns.reduce((sum, { reply }) => sum + reply.tokenIds.length, 0),
    isTruncated: end.kind === "truncated",
  };
}

function joinTurns(
  run: readonly Turn[],
  { tokenIds, samplerLogprobs, versions, rewards, lossMask }: RowArrays,
  rewardOf: ReadonlyMap<Turn, number>,
  { turns, end }: Trajectory,
  place: Pick<TokenSample, "group" | "trajectory" | "domain" | "greedy">,
): TokenSample {
  const last = run.at(-1)!;
  tokenIds.set(last.promptIds);
  tokenIds.set(last.reply.tokenIds, last.promptIds.length);
  versions.fill(-1);
  let onOldCache: Uint8Array | undefined;
  for (const turn of run) {
    const { promptIds, reply } = turn;
    const start = promptIds.length;
    const stop = start + reply.tokenIds.length;
    lossMask.fill(1, start, stop);
    samplerLogprobs.set(reply.samplerLogprobs, start);
    versions.set(reply.versions, start);
    for (let i = 0; i < reply.versions.length; i++) {
      if (reply.cacheVersions[i]! >= reply.versions[i]!) continue;
      onOldCache ??= new Uint8Array(tokenIds.length);
      onOldCache[start + i] = 1;
    }
    rewards[stop - 1] = rewardOf.get(turn)!;
  }
  const turn = turns.indexOf(run[0]!);
  return {
    tokenIds,
    lossMask,
    samplerLogprobs,
    versions,
    rewards,
    turn,
    stateKey: run[0]!.stateKey ?? `turn ${turn}`,
    isTruncated: end.kind === "truncated",
    // Behind what every row has: objects that begin with a spread are each of a kind of their own to V8, and slow to read.
    ...place,
    ...(onOldCache !== undefined && { onOldCache }),
  };
}

type RowArrays = Pick<TokenSample, "tokenIds" | "samplerLogprobs" | "versions" | "rewards" | "lossMask">;

/** Arrays for one row after another, over one piece of memory for all of them: see tokenArrays. */
function rowMemory(lengths: readonly number[]): () => RowArrays {
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const memory = new ArrayBuffer(17 * total);
  let row = 0;
  let start = 0;
  return () => {
    const length = lengths[row++]!;
    const at = (kind: number) => 4 * (kind * total + start);
    const arrays = {
      tokenIds: new Int32Array(memory, at(0), length),
      samplerLogprobs: new Float32Array(memory, at(1), length),
      versions: new Int32Array(memory, at(2), length),
      rewards: new Float32Array(memory, at(3), length),
      lossMask: new Uint8Array(memory, 16 * total + start, length),
    };
    start += length;
    return arrays;
  };
}

function count(mask: Uint8Array): number {
  let total = 0;
  for (let i = 0; i < mask.length; i++) total += mask[i]!;
  return total;
}
