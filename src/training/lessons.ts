/**
 * Lessons: replies drawn in a richer context, learned without it.
 *
 * The teacher is the policy of the moment, as it reads the context; what it says is a constant. The loss is the divergence of the whole
 * next-token distributions, its mean taken over the tokens of all lessons of an update, whichever rank has them.
 */
import { meanOver } from "../algorithms/losses/loss-metrics.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { SampleBatch } from "../flow/token-sample.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { type Divergence, tokenDivergences } from "../models/causal-lm/token-divergences.ts";
import { noGrad } from "../torch/autograd.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import { hiddenBefore } from "./measure-rows.ts";
import type { MetricSums } from "./metric-sums.ts";
import type { Strategy } from "./strategy/strategy.ts";
import { withPrompt } from "./teaching.ts";
import { forwardParts, type Grid, gridOf, packTokens, type RowTokens } from "./token-rows.ts";

/** How lessons count in the loss. */
export interface LessonOptions {
  readonly divergence: Divergence;
  readonly coefficient: number;
}

/** Lessons as rows, what the policy reads and what the teacher does, and which of them are meant. */
export interface LessonRows {
  readonly student: Grid<RowTokens>;
  readonly teacher: Grid<RowTokens>;
  readonly rows: readonly number[];
}

/** All lessons of a batch; null where it has none. */
export function openLessons({ lessons = [] }: SampleBatch, options: LessonOptions | undefined): LessonRows | null {
  if (lessons.length === 0) return null;
  if (options === undefined)
    throw new RerollError("MISSING_PART", "The batch has lessons, and the trainer has no options for them.");
  const student = gridOf(lessons);
  const seen = lessons.map((lesson, row) => withPrompt(lesson.teacherPromptIds, lesson, student.starts[row]!));
  return { student, teacher: gridOf(seen), rows: lessons.map((_, row) => row) };
}

/** The lessons of one update: each step's are dealt out over its updates. */
export function lessonsOf(lessons: LessonRows | null, update: { readonly index: number; readonly count: number }) {
  return lessons && { ...lessons, rows: lessons.rows.filter((row) => row % update.count === update.index) };
}

interface LearnSettings {
  readonly temperature: number;
  readonly recompute: boolean;
  readonly maxTokensPerMicrobatch: number;
}

/** Adds the gradients of the lessons of an update that are this rank's. */
export function learnLessons(
  lessons: LessonRows,
  model: CausalLm,
  options: LessonOptions & LearnSettings,
  strategy: Strategy,
  sums: MetricSums,
): void {
  const { student, teacher, rows } = lessons;
  const numTokens = rows.reduce((sum, row) => sum + countTokens(student.samples[row]!), 0);
  const own = rows.filter((_, i) => i % strategy.numRanks === strategy.rank);
  const lengthOf = (row: number) => Math.max(...[student, teacher].map((of) => of.samples[row]!.tokenIds.length));
  for (const part of forwardParts(student, own, options.maxTokensPerMicrobatch, lengthOf)) {
    tensorScope(() => {
      const values_N = divergences(lessons, part, model, options);
      const loss = values_N.sum().mul(options.coefficient / numTokens);
      strategy.backward(loss);
      const [fixed, measured_N] = [loss.detach(), values_N.detach()];
      const metrics = { "reflection/divergence": meanOver(measured_N.isFinite(), measured_N) };
      sums.add(metrics, { "train/loss": fixed, "train/loss_reflection": fixed });
    });
  }
}

function divergences(
  { student, teacher }: LessonRows,
  rows: readonly number[],
  model: CausalLm,
  { divergence, temperature, recompute }: LessonOptions & LearnSettings,
): Tensor {
  const { device } = model.embedding;
  const hidden_SD = hiddenBefore(model, packTokens(student, rows, device), recompute);
  const taughtHidden_SD = noGrad(() => hiddenBefore(model, packTokens(teacher, rows, device)));
  const { head: head_VD, softCap } = model;
  const taught = { hidden_SD: taughtHidden_SD, head_VD, softCap };
  return tokenDivergences({ hidden_SD, head_VD, softCap }, taught, { divergence, temperature });
}

function countTokens({ lossMask }: RowTokens): number {
  return lossMask.reduce((sum, isLoss) => sum + isLoss, 0);
}
