/**
 * What teachers say about the rows of a batch: log-probs of the sampled tokens, or how far whole distributions are apart.
 *
 * In: rows that name their teacher and, where it has another context, the prompt it reads. Out: values on the grid of the rows.
 * Teachers never learn here. Their log-probs go by a type that corrections do not take.
 */
import { meanOver } from "../algorithms/losses/loss-metrics.ts";
import type { LossMetrics } from "../flow/batch-statistics.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { type LoraCopy, withLoraCopy, withoutLora } from "../models/causal-lm/lora.ts";
import { type Divergence, tokenDivergences } from "../models/causal-lm/token-divergences.ts";
import { noGrad } from "../torch/autograd.ts";
import { ones, tensor, zeros } from "../torch/create.ts";
import type { Device } from "../torch/dtype.ts";
import type { Tensor } from "../torch/tensor.ts";
import { hiddenBefore, joinParts, measureAll, measurePolicy } from "./measure-rows.ts";
import { SleepingModel } from "./roles/sleeping-model.ts";
import {
  forwardParts,
  type Grid,
  gridOf,
  type PackedTokens,
  packTokens,
  type RowTokens,
  toGrid,
} from "./token-rows.ts";

/** A frozen model; or the policy as it is, without its LoRA adapters, or with those it once had. */
export type Teacher = CausalLm | SleepingModel | LoraCopy | "base" | "current";

/** The teachers of a trainer, and how it learns from them. */
export interface TeachingParts {
  /** By the names that rows call them. Rows of others bring their log-probs along. */
  readonly teachers: ReadonlyMap<string, Teacher>;
  /** advantage: log teacher / policy at the sampled tokens joins the advantages. full: the divergence of whole distributions joins the loss. */
  readonly form: "advantage" | "full";
  readonly divergence: Divergence;
  readonly coefficient: number;
  /** Whether rewards count too. */
  readonly keepsRewards: boolean;
}

/** The rows of a batch as their teachers read them, on the grid of the rows. Rows without a teacher stay as they are. */
export function teacherGrid({ samples, starts, numColumns }: Grid): Grid<RowTokens> {
  const seen = samples.map(({ tokenIds, lossMask, teacher }, row) =>
    teacher?.promptIds === undefined
      ? { tokenIds, lossMask }
      : withPrompt(teacher.promptIds, { tokenIds, lossMask }, starts[row]!),
  );
  return { ...gridOf(seen), numColumns };
}

/** Another prompt before the same tokens. */
export function withPrompt(promptIds: Int32Array, { tokenIds, lossMask }: RowTokens, start: number): RowTokens {
  const length = promptIds.length + tokenIds.length - start;
  const [ids, mask] = [new Int32Array(length), new Uint8Array(length)];
  ids.set(promptIds);
  ids.set(tokenIds.subarray(start), promptIds.length);
  mask.set(lossMask.subarray(start), promptIds.length);
  return { tokenIds: ids, lossMask: mask };
}

/** Where and how rows are measured. */
interface MeasureSettings {
  readonly policy: CausalLm;
  readonly maxTokens: number;
  readonly temperature: number;
}

/** Log-probs of the teachers at the loss tokens of these rows, in their order; NaN for rows without a teacher. Without gradient. */
export function measureTeachers(
  grid: Grid,
  rows: readonly number[],
  teachers: TeachingParts["teachers"],
  { policy, maxTokens, temperature }: MeasureSettings,
): Tensor {
  const seen = teacherGrid(grid);
  const { device } = policy.embedding;
  const told = rows.filter((row) => !isMeasured(grid.samples[row]!, teachers));
  const isTold = new Set(told);
  const settings = { temperature, recompute: false, numScores: policy.head.size(0) };
  const parts: (readonly number[])[] = told.length === 0 ? [] : [told];
  const values = told.length === 0 ? [] : [toldLogprobs(grid, told, device)];
  for (const [name, teacher] of teachers) {
    const own = rows.filter((row) => grid.samples[row]!.teacher?.name === name && !isTold.has(row));
    if (own.length === 0) continue;
    const measured = measureAs(policy, teacher, (model) =>
      measureAll(seen, own, forwardParts(seen, own, maxTokens), device, (packed) => ({
        logprobs: measurePolicy(model, packed, settings).logprobs_BT,
      })),
    );
    parts.push(own);
    values.push(measured.logprobs);
  }
  return joinParts(values, parts, rows);
}

function isMeasured({ teacher }: TokenSample, teachers: TeachingParts["teachers"]): boolean {
  return teacher !== undefined && teacher.logprobs === undefined && teachers.has(teacher.name);
}

/** What rows bring along, NaN where they bring nothing. */
function toldLogprobs({ samples, starts, numColumns }: Grid, rows: readonly number[], device: Device): Tensor {
  const cells = new Float32Array(rows.length * numColumns).fill(Number.NaN);
  for (const [i, row] of rows.entries()) {
    const logprobs = samples[row]!.teacher?.logprobs;
    if (logprobs !== undefined) cells.set(logprobs.subarray(starts[row]!), i * numColumns);
  }
  return tensor(cells, [rows.length, numColumns], { device });
}

/** What a forward pass of the policy over some rows left behind. */
interface PolicyPass {
  readonly rows: readonly number[];
  readonly packed: PackedTokens;
  readonly hidden_ND: Tensor;
}

/** Divergences from the teachers on the grid of the rows, 0 where there is none. With gradient. */
export function rowDivergences(
  grid: Grid,
  seen: Grid<RowTokens>,
  { rows, packed, hidden_ND }: PolicyPass,
  { teachers, divergence }: TeachingParts,
  { policy, temperature }: Omit<MeasureSettings, "maxTokens">,
): { readonly divergence_BT: Tensor; readonly metrics: LossMetrics } {
  const { device } = hidden_ND;
  const empty = { dtype: "float32", device } as const;
  let divergence_BT = zeros([packed.numRows, packed.numColumns], empty);
  let measured_BT = divergence_BT;
  for (const [name, teacher] of teachers) {
    const own = rows.filter((row) => grid.samples[row]!.teacher?.name === name);
    if (own.length === 0) continue;
    const places_N = tensor(lossPlaces(grid, rows, new Set(own)), { dtype: "int64", device });
    const taught = noGrad(() =>
      measureAs(policy, teacher, (model) => ({
        hidden_SD: hiddenBefore(model, packTokens(seen, own, device)),
        head_VD: model.head,
        softCap: model.softCap,
      })),
    );
    const { head: head_VD, softCap } = policy;
    const mine = { hidden_SD: hidden_ND.indexSelect(0, places_N), head_VD, softCap };
    const values_N = tokenDivergences(mine, taught, { divergence, temperature });
    const place = { ...packed, cells_N: packed.cells_N.indexSelect(0, places_N) };
    divergence_BT = divergence_BT.add(toGrid(values_N, place));
    measured_BT = measured_BT.add(toGrid(ones(values_N.shape, empty), place));
  }
  const name = divergence === "jsd" ? "distillation/jsd" : `distillation/${divergence}_kl`;
  return { divergence_BT, metrics: { [name]: meanOver(measured_BT.ne(0), divergence_BT.detach()) } };
}

/** Places among the loss tokens of all rows of those that belong to some. */
function lossPlaces({ samples }: Grid, rows: readonly number[], own: ReadonlySet<number>): number[] {
  const places: number[] = [];
  let place = 0;
  for (const row of rows) {
    const { lossMask } = samples[row]!;
    for (const isLoss of lossMask) {
      if (isLoss === 0) continue;
      if (own.has(row)) places.push(place);
      place++;
    }
  }
  return places;
}

/** Measures with the policy as its teacher or reference was. */
export function measureAs<Result>(policy: CausalLm, teacher: Teacher, measure: (model: CausalLm) => Result): Result {
  if (teacher instanceof CausalLm) return measure(teacher);
  if (teacher instanceof SleepingModel) return teacher.awake(measure);
  if (teacher === "current") return measure(policy);
  const asItWas = () => measure(policy);
  return teacher === "base" ? withoutLora(policy, asItWas) : withLoraCopy(policy, teacher, asItWas);
}
