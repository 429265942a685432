/**
 * Recorded decode steps, one graph per batch size.
 *
 * A step of small batches is hundreds of short kernels; launching them one by one takes many times longer than running
 * them. A graph is recorded at its first use, over tensors that stay in place: a step fills those and replays it.
 */
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { empty, tensor } from "../../torch/create.ts";
import { CudaGraph } from "../../torch/cuda.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { PagedCache } from "./paged-cache.ts";
import { decodeLayout } from "./paged-layout.ts";
import type { Piece } from "./scheduler.ts";

interface RecordedStep {
  readonly graph: CudaGraph;
  /** ids, positions, slots and lengths of the rows, then their block tables: one buffer, filled by one copy. */
  readonly input: Tensor;
  readonly scores_BV: Tensor;
}

export class DecodeGraphs {
  private readonly model: CausalLm;
  private readonly cache: PagedCache;
  private readonly tableWidth: number;
  private readonly sizes: readonly number[];
  private readonly recorded = new Map<number, RecordedStep>();

  constructor(
    model: CausalLm,
    cache: PagedCache,
    limits: { readonly maxRunning: number; readonly contextLength: number },
  ) {
    this.model = model;
    this.cache = cache;
    this.tableWidth = Math.ceil(limits.contextLength / cache.blockSize);
    this.sizes = batchSizes(limits.maxRunning);
  }

  /** The scores of one new token per piece, [n, V]. Valid until the next call. */
  run(pieces: readonly Piece[]): Tensor {
    const B = this.sizes.find((size) => size >= pieces.length)!;
    const values = this.inputFor(pieces, B);
    let step = this.recorded.get(B);
    if (step === undefined) {
      step = this.record(B, values);
      this.recorded.set(B, step);
    }
    tensorScope(() => step.input.copy_(tensor(values, [values.length])));
    step.graph.replay();
    return step.scores_BV.narrow(0, 0, pieces.length);
  }

  dispose(): void {
    for (const { graph, input, scores_BV } of this.recorded.values()) {
      graph.dispose();
      input.dispose();
      scores_BV.dispose();
    }
    this.recorded.clear();
  }

  private inputFor(pieces: readonly Piece[], B: number): Int32Array {
    const { blockSize, scratchBlock } = this.cache;
    const M = this.tableWidth;
    const values = new Int32Array(B * (4 + M));
    // Rows without a sequence write to the scratch block and see one token of it.
    values.fill(scratchBlock * blockSize, 2 * B, 3 * B);
    values.fill(1, 3 * B, 4 * B);
    values.fill(scratchBlock, 4 * B);
    pieces.forEach(({ sequence }, row) => {
      const position = sequence.numComputed;
      values[row] = sequence.tokens[position]!;
      values[B + row] = position;
      values[2 * B + row] = sequence.blocks[Math.floor(position / blockSize)]! * blockSize + (position % blockSize);
      values[3 * B + row] = position + 1;
      values.set(sequence.blocks, 4 * B + row * M);
    });
    return values;
  }

  private record(B: number, values: Int32Array): RecordedStep {
    const { device } = this.cache;
    const M = this.tableWidth;
    const input = keep(empty([values.length], { dtype: "int32", device }));
    input.copy_(tensor(values, [values.length]));
    const part = (index: number) => input.narrow(0, index * B, B);
    const tensors = {
      positions_B: part(1),
      slots_B: part(2),
      lengths_B: part(3),
      table_BM: input.narrow(0, 4 * B, B * M).view(B, M),
    };
    const step = () =>
      tensorScope(() => this.model.logits(this.model.forward(part(0), decodeLayout(tensors, this.cache))));
    // Once outside the graph: kernels are compiled and libraries make their workspaces at first use.
    step().dispose();
    const graph = new CudaGraph();
    // The largest graph comes first in memory needs, not in time; sharing one pool keeps the sum near the largest.
    const [first] = this.recorded.values();
    const scores_BV = keep(graph.capture(step, first === undefined ? {} : { shareMemoryWith: first.graph }));
    return { graph, input, scores_BV };
  }
}

/** 1, 2, 4, 8, then steps of 8 up to 64, of 16 up to 128, of 32 above: padding wastes little, graphs stay few. */
function batchSizes(maxRunning: number): number[] {
  const sizes = [1, 2, 4];
  for (let size = 8; size < maxRunning; size += size < 64 ? 8 : size < 128 ? 16 : 32) sizes.push(size);
  return [...sizes.filter((size) => size < maxRunning), maxRunning];
}
