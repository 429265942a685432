/**
 * Recorded decode steps, one graph per batch size: tokens through the model, and the next tokens drawn.
 *
 * A step of small batches is hundreds of short kernels; launching them one by one takes many times longer than running
 * them. A graph is recorded over tensors that stay in place: a step fills those and replays it. `recordAll` records every
 * size before the first request; without it each is recorded at its first use, which that step waits for.
 *
 * A step can start from the tokens that the one before draws, while those are still on the device: the host prepares and
 * reads steps while the device is at work. At most two steps are on their way at the same time.
 *
 * What replies with a constraint may draw is known once the tokens before are read, and so while the step is at work: its scores are drawn
 * from again then, by masks. The first draw, part of the graph, is a hundredth of a step.
 */
import { invariant } from "../../errors/reroll-error.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { ModelRotary } from "../../models/causal-lm/rotary.ts";
import { inferenceMode } from "../../torch/autograd.ts";
import { empty, pinned, zeros, zerosLike } from "../../torch/create.ts";
import { CudaEvent, CudaGraph, cudaSynchronize } from "../../torch/cuda.ts";
import { isExact, minExactRows } from "../../torch/exact.ts";
import { canSample, maskedSampleKernel, sampleKernel } from "../../torch/kernels/sample-kernel.ts";
import type { StepScores } from "../../torch/kernels/score-tiles-kernel.ts";
import { copyKernel, deliverKernel, receiveKernel } from "../../torch/kernels/token-kernel.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type DecodeTokens, decodeForward } from "./decode-forward.ts";
import { expectComputed } from "./decode-path.ts";
import { DeviceMasks } from "./device-masks.ts";
import type { DrawnRows } from "./drawn-rows.ts";
import type { PagedCache } from "./paged-cache.ts";
import { exactRowsLayout } from "./paged-layout.ts";
import { stateAfter, stateBefore } from "./piece-states.ts";
import type { Sequence } from "./sequence.ts";
import { uniformAt } from "./uniform.ts";

/** A step on its way: one row per sequence. */
export interface LaunchedStep {
  readonly sequences: readonly Sequence[];
  /** Draws what masks allow, in place of what was drawn without; null for sequences that may draw all tokens. Before `read`, at most once. */
  draw(masks: readonly (Int32Array | null)[]): void;
  /** Waits for the step. The rows change when a later one is read. */
  read(): DrawnRows;
}

/** Memory of the host that a step reads and writes by itself: one uses the first, the next the other. */
interface StepEnds {
  readonly inputs_2N: Tensor;
  readonly outputs_24B: Tensor;
  /** Which of the two is next, on the device: every step turns it. */
  readonly turn: Tensor;
}

/** One of the two. */
interface Slot {
  readonly input: Tensor;
  readonly output_4B: Tensor;
  readonly done: CudaEvent;
}

interface RecordedStep {
  readonly B: number;
  readonly graph: CudaGraph;
  /** What the graph reads, see `columns`, and what it leaves. */
  readonly input: Tensor;
  readonly scores_BV: Tensor;
  readonly drawn_3B: Tensor | null;
  readonly ends: StepEnds;
  readonly slots: [other: Slot, next: Slot];
  /** The input as the host prepares it, and how much of which list of blocks each row of its table shows. */
  readonly values: Int32Array;
  readonly floats: Float32Array;
  readonly shown: ShownBlocks[];
  /** What the host has read, all of it and as columns. */
  readonly output: Float32Array;
  readonly rows: DrawnRows;
  readonly maskedRows: DrawnRows;
}

/** Lists of blocks only grow: one that is shown is still right, as far as it went. */
interface ShownBlocks {
  blocks: readonly number[];
  length: number;
}

/** Parts of the input, B values each; the block tables follow. Float values are there by their bits. */
const columns = {
  token: 0,
  from: 1,
  position: 2,
  temperature: 3,
  uniform: 4,
  stateFrom: 5,
  stateTo: 6,
  table: 7,
} as const;

export class DecodeGraphs {
  /** Whether steps can draw. */
  readonly canDraw: boolean;
  readonly #model: CausalLm;
  readonly #cache: PagedCache;
  readonly rotary: ModelRotary;
  readonly #tableWidth: number;
  readonly #sizes: readonly number[];
  readonly #recorded = new Map<number, RecordedStep>();
  /** The tokens that the last step drew, int32. */
  readonly #drawn: Tensor;
  /** Zeros between two kernels: see DecodeRows. */
  readonly #arrivals: Tensor;
  /** Made for the first step that needs it. */
  #masks: DeviceMasks | undefined;

  constructor(
    model: CausalLm,
    cache: PagedCache,
    limits: { readonly maxRunning: number; readonly contextLength: number },
  ) {
    expectComputed(model.config);
    this.#model = model;
    this.#cache = cache;
    this.canDraw = canSample(model.config.vocabSize);
    this.rotary = new ModelRotary(model.config);
    this.#tableWidth = Math.ceil(limits.contextLength / cache.blockSize);
    const sizes = batchSizes(limits.maxRunning);
    const exactSizes = sizes.filter((size) => size >= minExactRows);
    this.#sizes = !isExact() ? sizes : exactSizes.length > 0 ? exactSizes : [minExactRows];
    const [maxRows, options] = [this.#sizes.at(-1)!, { dtype: "int32", device: cache.device }] as const;
    this.#drawn = keep(zeros([maxRows], options));
    this.#arrivals = keep(zeros([maxRows * cache.heads.numHeads], options));
  }

  /** Records every size, the largest first: the others then find their memory in its pool. */
  recordAll(): void {
    for (const size of this.#sizes.toReversed()) this.#stepFor(size);
  }

  /** The scores after the last token of each sequence, [n, V]. Valid until the next call. */
  scores(sequences: readonly Sequence[]): Tensor {
    const step = this.#stepFor(sequences.length);
    this.#start(step, sequences, null);
    return step.scores_BV.narrow(0, 0, sequences.length);
  }

  /**
   * Starts a step that draws a token for each sequence, by temperature alone. With `from`, a sequence's last token is the
   * one that this row of the step before draws, and stands one position further than the sequence is computed.
   */
  launch(sequences: readonly Sequence[], from: readonly number[] | null): LaunchedStep {
    const step = this.#stepFor(sequences.length);
    const slot = this.#start(step, sequences, from);
    slot.done.record();
    return new GraphStep(sequences, step, slot, (masks) => this.#drawMasked(step, masks));
  }

  /** Frees every recorded step: the memory that they read and write is about to go. */
  forget(): void {
    if (this.#recorded.size > 0) cudaSynchronize();
    for (const { graph, input, scores_BV, drawn_3B, ends, slots } of this.#recorded.values()) {
      for (const one of [graph, input, scores_BV, ...Object.values(ends)]) one.dispose();
      drawn_3B?.dispose();
      for (const slot of slots) for (const one of Object.values(slot)) one.dispose();
    }
    this.#recorded.clear();
  }

  dispose(): void {
    this.forget();
    this.rotary.dispose();
    this.#drawn.dispose();
    this.#arrivals.dispose();
    this.#masks?.dispose();
  }

  /** Rows without a mask keep what the graph drew for them. */
  #drawMasked({ B, input, scores_BV, drawn_3B }: RecordedStep, masks: readonly (Int32Array | null)[]): Tensor {
    invariant(drawn_3B !== null, "a step that cannot draw was asked to draw by masks");
    this.#masks ??= new DeviceMasks(this.#sizes.at(-1)!, this.#model.config.vocabSize, this.#cache.device);
    const [temperatures_B, uniforms_B] = [columns.temperature, columns.uniform].map((index) =>
      input.narrow(0, index * B, B),
    ) as [Tensor, Tensor];
    const before = { plain_3B: drawn_3B, drawn_B: this.#drawn };
    return maskedSampleKernel(scores_BV, temperatures_B, uniforms_B, this.#masks.upload(masks), before);
  }

  #start(step: RecordedStep, sequences: readonly Sequence[], from: readonly number[] | null): Slot {
    const [slot] = step.slots.reverse();
    // Both are long done in the usual course; a step that nobody read may not be.
    slot!.done.synchronize();
    this.#fill(step, sequences, from);
    slot!.input.writeFrom(step.values);
    step.graph.replay();
    return slot!;
  }

  #fill(
    { B, values, floats, shown }: RecordedStep,
    sequences: readonly Sequence[],
    from: readonly number[] | null,
  ): void {
    for (let row = 0; row < B; row++) {
      const sequence = sequences[row];
      if (sequence === undefined) {
        this.#fillEmpty(values, row, B);
        shown[row]!.blocks = noBlocks;
        continue;
      }
      const position = sequence.numComputed + (from === null ? 0 : 1);
      values[columns.token * B + row] = from === null ? sequence.tokenAt(position) : 0;
      values[columns.from * B + row] = from === null ? -1 : from[row]!;
      values[columns.position * B + row] = position;
      floats[columns.temperature * B + row] = sequence.sampling.temperature ?? 1;
      // The draw comes after the token at `position`: see drawRequest.
      floats[columns.uniform * B + row] = uniformAt(sequence.seed, position + 1);
      if (this.#cache.hasStates) {
        values[columns.stateFrom * B + row] = stateBefore(sequence, position, this.#cache);
        values[columns.stateTo * B + row] = stateAfter(sequence, position);
      }
      const { blocks } = sequence;
      const before = shown[row]!;
      const table = columns.table * B + row * this.#tableWidth;
      for (let i = before.blocks === blocks ? before.length : 0; i < blocks.length; i++) values[table + i] = blocks[i]!;
      before.blocks = blocks;
      before.length = blocks.length;
    }
  }

  /** A row without a sequence writes to the scratch block and the scratch state, and sees one token. */
  #fillEmpty(values: Int32Array, row: number, B: number): void {
    for (let column = 0; column < columns.table; column++) values[column * B + row] = 0;
    values[columns.from * B + row] = -1;
    values[columns.stateFrom * B + row] = this.#cache.emptyState;
    values[columns.stateTo * B + row] = this.#cache.scratchState;
    values[columns.table * B + row * this.#tableWidth] = this.#cache.scratchBlock;
  }

  #stepFor(numRows: number): RecordedStep {
    const B = this.#sizes.find((size) => size >= numRows)!;
    let step = this.#recorded.get(B);
    if (step === undefined) {
      step = this.#record(B);
      this.#recorded.set(B, step);
    }
    return step;
  }

  #record(B: number): RecordedStep {
    const { device } = this.#cache;
    const M = this.#tableWidth;
    const values = new Int32Array(B * (columns.table + M));
    for (let row = 0; row < B; row++) this.#fillEmpty(values, row, B);
    const ends = keep({
      inputs_2N: pinned([2, values.length], "int32"),
      outputs_24B: pinned([2, 4, B], "float32"),
      turn: zeros([1], { dtype: "int32", device }),
    });
    const slot = (index: number) => ({
      input: keep(ends.inputs_2N.select(0, index)).writeFrom(values),
      output_4B: keep(ends.outputs_24B.select(0, index)),
      done: new CudaEvent(),
    });
    const slots: [Slot, Slot] = [slot(1), slot(0)];
    const input = keep(empty([values.length], { dtype: "int32", device }));
    // Once outside the graph: kernels are compiled and libraries make their workspaces at first use. What the step before
    // has drawn stays as it is: the step that this one is recorded for may start from it.
    tensorScope(() => this.#compute(input, B, zerosLike(this.#drawn), { ...ends, turn: zerosLike(ends.turn) }));
    const graph = new CudaGraph();
    // Graphs run one at a time: with one pool for all, they take together little more than the largest.
    const [first] = this.#recorded.values();
    const computed = graph.capture(
      () => tensorScope(() => this.#compute(input, B, this.#drawn, ends)),
      first === undefined ? {} : { shareMemoryWith: first.graph },
    );
    const output = new Float32Array(4 * B);
    const [tokenIds, samplerLogprobs, modelLogprobs, drawLogprobs] = [0, 1, 2, 3].map((index) =>
      output.subarray(index * B, (index + 1) * B),
    ) as [Float32Array, Float32Array, Float32Array, Float32Array];
    const drawn = { tokenIds, samplerLogprobs, modelLogprobs };
    return {
      B,
      graph,
      input,
      ...keep(computed),
      ends,
      slots,
      values,
      floats: new Float32Array(values.buffer),
      shown: Array.from({ length: B }, () => ({ blocks: noBlocks, length: 0 })),
      output,
      rows: { ...drawn, drawLogprobs: samplerLogprobs },
      maskedRows: { ...drawn, drawLogprobs },
    };
  }

  /** A step from the tokens in `drawn` or in the input; the next tokens go to `drawn`. */
  #compute(
    input: Tensor,
    B: number,
    drawn: Tensor,
    ends: StepEnds,
  ): { readonly scores_BV: Tensor; readonly drawn_3B: Tensor | null } {
    const column = (index: number) => input.narrow(0, index * B, B);
    const { inputs_2N, outputs_24B, turn } = ends;
    const tables = this.rotary.tablesFor(this.#tableWidth * this.#cache.blockSize - 1, input.device);
    const lookup = { tables, positionsAt: columns.position * B };
    const { ids_B, rotations } = receiveKernel(input, inputs_2N, turn, drawn, B, lookup);
    const [whole, local = whole] = rotations;
    const temperatures_B = column(columns.temperature);
    const tokens = {
      ids_B,
      positions_B: column(columns.position),
      table_BM: input.narrow(0, columns.table * B, B * this.#tableWidth).view(B, this.#tableWidth),
      ...{ stateFrom_B: column(columns.stateFrom), stateTo_B: column(columns.stateTo) },
      ...{ rotations: { whole, local }, arrivals_N: this.#arrivals, temperatures_B },
    };
    const { scores_BV, tiles } = isExact()
      ? this.#exactScores(tokens)
      : decodeForward(this.#model, tokens, this.#cache);
    const drawn_3B = this.canDraw
      ? sampleKernel(scores_BV, temperatures_B, column(columns.uniform), { drawn_B: drawn, tiles })
      : null;
    deliverKernel(outputs_24B, turn, drawn_3B);
    return { scores_BV, drawn_3B };
  }

  #exactScores({ ids_B, table_BM, positions_B }: Pick<DecodeTokens, "ids_B" | "table_BM" | "positions_B">): StepScores {
    const hidden_BD = this.#model.forward(ids_B, exactRowsLayout(table_BM, positions_B, this.#cache));
    return { scores_BV: this.#model.logits(hidden_BD), tiles: null };
  }
}

/** A class, and no object with functions: scopes look through plain objects for tensors, and so through all sequences of every step. */
class GraphStep implements LaunchedStep {
  readonly sequences: readonly Sequence[];
  readonly #step: RecordedStep;
  readonly #slot: Slot;
  readonly #drawMasked: (masks: readonly (Int32Array | null)[]) => Tensor;
  #isMasked = false;

  constructor(
    sequences: readonly Sequence[],
    step: RecordedStep,
    slot: Slot,
    drawMasked: (masks: readonly (Int32Array | null)[]) => Tensor,
  ) {
    this.sequences = sequences;
    this.#step = step;
    this.#slot = slot;
    this.#drawMasked = drawMasked;
  }

  draw(masks: readonly (Int32Array | null)[]): void {
    this.#isMasked = true;
    tensorScope(() => inferenceMode(() => copyKernel(this.#slot.output_4B, this.#drawMasked(masks))));
    this.#slot.done.record();
  }

  read(): DrawnRows {
    const { output, rows, maskedRows } = this.#step;
    this.#slot.done.synchronize();
    this.#slot.output_4B.readInto(output);
    return this.#isMasked ? maskedRows : rows;
  }
}

const noBlocks: readonly number[] = [];

/** 1, 2, 4, 8, then steps of 8 up to 64, of 16 up to 128, of 32 above: padding wastes little, graphs stay few. */
function batchSizes(maxRunning: number): number[] {
  const sizes = [1, 2, 4];
  for (let size = 8; size < maxRunning; size += size < 64 ? 8 : size < 128 ? 16 : 32) sizes.push(size);
  return [...sizes.filter((size) => size < maxRunning), maxRunning];
}
