/**
 * Builds lessons from second tries that succeeded: the reply as the policy reads it, without the reflection, and the prompt with it for the
 * teacher.
 *
 * A lesson has no sampler log-probs, and its reward goes nowhere: the group's baseline is that of the first tries.
 */
import { joinIds } from "../flow/join-arrays.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { Lesson } from "../flow/token-sample.ts";
import type { TrajectoryGroup, Turn } from "../flow/trajectory.ts";
import { type BuildOptions, splitTurns, twinPrompt } from "./sample-builder.ts";

interface BuiltLessons {
  readonly lessons: readonly Lesson[];
  readonly metrics: Metrics;
}

export function buildLessons(groups: readonly TrajectoryGroup[], { maxTokens = Infinity }: BuildOptions): BuiltLessons {
  const tries = groups.flatMap(({ trajectories }) => trajectories.flatMap(({ secondTry }) => secondTry ?? []));
  const runs = tries.filter(({ isLearned }) => isLearned).flatMap(({ turns }) => splitTurns(turns));
  const lessons = runs.flatMap((run) => lessonOf(run, maxTokens) ?? []);
  return { lessons, metrics: { "reflection/lessons": lessons.length } };
}

function lessonOf(run: readonly Turn[], maxTokens: number): Lesson | null {
  const [first, last] = [run[0]!, run.at(-1)!];
  const numTokens = last.promptIds.length + last.reply.tokenIds.length;
  const studentPromptIds = twinPrompt(run, maxTokens);
  if (studentPromptIds === null || numTokens > maxTokens) return null;
  const rest = joinIds([last.promptIds, last.reply.tokenIds]).subarray(first.promptIds.length);
  const tokenIds = joinIds([studentPromptIds, rest]);
  const lossMask = new Uint8Array(tokenIds.length);
  for (const { promptIds, reply } of run) {
    const start = studentPromptIds.length + promptIds.length - first.promptIds.length;
    lossMask.fill(1, start, start + reply.tokenIds.length);
  }
  return { tokenIds, lossMask, teacherPromptIds: first.promptIds };
}
