/**
 * Ranks in the middle of a computation: every call blocks the thread until all of them have made it.
 *
 * For threads and processes that have nothing else to do. Tensors of a GPU go through host memory where the ranks are joined by Gloo,
 * which is how several ranks share one GPU.
 */
import { noGrad } from "../autograd.ts";
import { empty, type TensorOptions } from "../create.ts";
import { keep, tensorScope } from "../scope.ts";
import type { Tensor } from "../tensor.ts";
import type { ProcessGroup, Reduction } from "./process-group.ts";

/** The part of a size that one of several ranks has: as equal as they can be, in the order of ranks. */
export function rangeOf(
  size: number,
  index: number,
  count: number,
): { readonly start: number; readonly length: number } {
  const start = Math.floor((index * size) / count);
  return { start, length: Math.floor(((index + 1) * size) / count) - start };
}

export class Collective {
  /** One rank by itself: nothing is moved. */
  static readonly alone = new Collective(null);
  readonly #group: ProcessGroup | null;
  readonly index: number;
  readonly count: number;

  constructor(group: ProcessGroup | null) {
    this.#group = group;
    this.index = group?.rank ?? 0;
    this.count = group?.worldSize ?? 1;
  }

  /** Replaces a contiguous tensor by the sum, or another reduction, over all ranks. */
  reduce_(x: Tensor, reduction: Reduction = "sum"): Tensor {
    return this.#change(x, (group, moved) => group.allReduceSync(moved, reduction));
  }

  /** Overwrites the tensor of every rank with that of one. */
  broadcast_(x: Tensor, root: number): Tensor {
    return this.#change(x, (group, moved) => group.broadcastSync(moved, root));
  }

  /** Writes the flat parts of all ranks, which are equally long, into `whole`, one after another. */
  gatherInto(whole: Tensor, own: Tensor): void {
    if (this.#group === null) noGrad(() => whole.copy_(own));
    else if (this.#isStaged(own)) this.#staged([own], ([part]) => whole.copy_(this.#gathered(part!)));
    else this.#group.allGatherIntoSync(whole, own);
  }

  /** Leaves the sum over all ranks of this rank's part of `whole` in `own`. */
  scatterSum(own: Tensor, whole: Tensor): void {
    if (this.#group === null) noGrad(() => own.copy_(whole));
    else if (!this.#isStaged(own)) this.#group.reduceScatterSync(own, whole);
    else
      this.#staged([whole], ([all]) => {
        const part = empty(own.shape, { dtype: own.dtype });
        this.#group!.reduceScatterSync(part, all!);
        own.copy_(part);
      });
  }

  /**
   * Gives part r of every rank to rank r: `parts` are one tensor for each rank, and `shapes` say the shape of what each of them sends here. Pairs
   * of ranks trade with each other, the lower one sending first. What has no elements is not sent.
   */
  swap(parts: readonly Tensor[], shapes: readonly (readonly number[])[]): Tensor[] {
    const group = this.#group;
    if (group === null) return [parts[0]!];
    return noGrad(() => {
      const isStaged = this.#isStaged(parts[0]!);
      const received: Tensor[] = [];
      received[this.index] = parts[this.index]!;
      for (let round = 0; round < this.count; round++) {
        const other = (((round - this.index) % this.count) + this.count) % this.count;
        if (other === this.index) continue;
        const { dtype, device } = parts[other]!;
        const out = isStaged
          ? parts[other]!.detach().contiguous().toDevice("cpu")
          : parts[other]!.detach().contiguous();
        const into = empty(shapes[other]!, { dtype, device: isStaged ? "cpu" : device });
        if (this.index < other && out.numel > 0) group.sendSync(out, other);
        if (into.numel > 0) group.receiveSync(into, other);
        if (this.index > other && out.numel > 0) group.sendSync(out, other);
        received[other] = isStaged ? into.toDevice(device) : into;
      }
      return received;
    });
  }

  /** Sends a value to a rank that receives it. Resolves when it has; the value may be freed before. */
  async send(value: Tensor, to: number): Promise<void> {
    const moved = noGrad(() =>
      keep(
        tensorScope(() => {
          const whole = value.detach().contiguous();
          return this.#isStaged(value) ? whole.toDevice("cpu") : whole;
        }),
      ),
    );
    await this.#group!.send(moved, to).finally(() => moved.dispose());
  }

  /** What a rank sends, of this shape. Blocks until it has come. */
  receive(shape: readonly number[], { dtype = "float32", device = "cpu" }: TensorOptions, from: number): Tensor {
    const isStaged = this.#group!.backend === "gloo" && device !== "cpu";
    const value = empty(shape, { dtype, device: isStaged ? "cpu" : device });
    this.#group!.receiveSync(value, from);
    return isStaged ? value.toDevice(device) : value;
  }

  #gathered(own: Tensor): Tensor {
    const whole = empty([own.numel * this.count], { dtype: own.dtype });
    this.#group!.allGatherIntoSync(whole, own);
    return whole;
  }

  #change(x: Tensor, change: (group: ProcessGroup, moved: Tensor) => void): Tensor {
    const group = this.#group;
    if (group === null) return x;
    if (!this.#isStaged(x)) change(group, x);
    else
      this.#staged([x], ([moved]) => {
        change(group, moved!);
        x.copy_(moved!);
      });
    return x;
  }

  #isStaged({ device }: Tensor): boolean {
    return this.#group?.backend === "gloo" && device !== "cpu";
  }

  #staged(tensors: readonly Tensor[], body: (moved: readonly Tensor[]) => void): void {
    noGrad(() =>
      tensorScope(() => {
        body(tensors.map((one) => one.detach().toDevice("cpu")));
      }),
    );
  }
}
