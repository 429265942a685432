/**
 * Parameters that travel together: flattened one after another and cut into equal parts, of which every rank owns one.
 *
 * Resident parameters are views of the whole, which is always there. Others have only the owned part in memory, on the device or on the host,
 * and are whole between `gather` and `release`.
 */
import { noGrad } from "../../torch/autograd.ts";
import { cat, empty, zeros } from "../../torch/create.ts";
import type { Collective } from "../../torch/distributed/collective.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import { op } from "../../torch/operator.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** The part of a parameter that a rank owns: elements `start` to `start + length` of it, at `offset` of the owned part. */
interface Slice {
  readonly start: number;
  readonly length: number;
  readonly offset: number;
}

interface Placed {
  readonly name: string;
  readonly parameter: Parameter;
  readonly shape: readonly number[];
  readonly numel: number;
  readonly offset: number;
}

interface FlatUnitOptions {
  readonly ranks: Collective;
  /** Where the parameters are to be, wherever they were made. */
  readonly device: string;
  readonly isResident: boolean;
  /** Keep the owned part in host memory. For parameters that are not resident. */
  readonly isOnHost: boolean;
}

export class FlatUnit {
  readonly placed: readonly Placed[];
  readonly isTrained: boolean;
  /** Whether the parameters are parts of larger ones, which other ranks have other parts of. */
  readonly isSplit: boolean;
  /** The elements that each rank owns. */
  readonly partLength: number;
  readonly device: string;
  /** The owned values. */
  readonly own: Tensor;
  /** The ranks that have the same parameters. */
  readonly ranks: Collective;
  readonly #options: FlatUnitOptions;
  #whole: Tensor | null;

  /** Parameters of one type and device, all trained or none, all split or none. Their values become those of the first rank. */
  constructor(parameters: readonly (readonly [string, Parameter])[], options: FlatUnitOptions) {
    const { ranks, isResident, isOnHost } = options;
    let offset = 0;
    this.placed = parameters.map(([name, parameter]) => {
      const { shape, numel } = parameter;
      offset += numel;
      return { name, parameter, shape: [...shape], numel, offset: offset - numel };
    });
    const first = parameters[0]![1];
    this.isTrained = first.requiresGrad;
    this.isSplit = first.shard !== null;
    this.device = options.device;
    this.ranks = ranks;
    this.partLength = Math.ceil(offset / ranks.count);
    this.#options = options;
    const whole = this.flatten((parameter) => parameter.detach());
    ranks.broadcast_(whole, 0);
    this.#whole = whole;
    this.#point();
    this.own = keep(
      tensorScope(() => {
        const part = whole.narrow(0, ranks.index * this.partLength, this.partLength);
        return isResident ? part : isOnHost ? part.toDevice("cpu").clone() : part.clone();
      }),
    );
    this.release();
  }

  /** Makes the parameters whole. Call it on all ranks. */
  gather(): void {
    if (this.#whole !== null) return;
    this.#whole = keep(tensorScope(() => this.gathered(this.own.toDevice(this.device))));
    this.#point();
  }

  /** Frees what `gather` made. Resident parameters stay. */
  release(): void {
    if (this.#options.isResident || this.#whole === null) return;
    tensorScope(() => {
      for (const { parameter } of this.placed)
        setData(parameter, empty([0], { dtype: parameter.dtype, device: this.device }));
    });
    this.#whole.dispose();
    this.#whole = null;
  }

  /** After the owned values have changed: resident parameters are made those of all ranks, others are gathered anew when they are needed. */
  refresh(): void {
    if (this.#options.isResident) this.ranks.gatherInto(this.#whole!, this.own);
    else this.release();
  }

  /** Values for all parameters, flattened and filled up to equal parts. Belongs to the caller. */
  flatten(pick: (parameter: Parameter) => Tensor | null): Tensor {
    return noGrad(() =>
      keep(
        tensorScope(() => {
          const place = { dtype: this.placed[0]!.parameter.dtype, device: this.device };
          const values = this.placed.map(
            ({ parameter, numel }) => pick(parameter)?.reshape(-1).toDevice(this.device) ?? zeros([numel], place),
          );
          const total = this.placed.at(-1)!.offset + this.placed.at(-1)!.numel;
          const filling = zeros([this.partLength * this.ranks.count - total], place);
          return cat([...values, filling]);
        }),
      ),
    );
  }

  /** The parts of all ranks, one after another. Call it on all of them. */
  gathered(part: Tensor): Tensor {
    const whole = empty([this.partLength * this.ranks.count], part);
    this.ranks.gatherInto(whole, part);
    return whole;
  }

  /** What lies at the place of each parameter, in its shape. */
  viewsOf(whole: Tensor): readonly (readonly [string, Tensor])[] {
    return this.placed.map(({ name, shape, numel, offset }) => [name, whole.narrow(0, offset, numel).view(...shape)]);
  }

  /** The part of each parameter that this rank owns. Absent where it owns none of it. */
  slices(): ReadonlyMap<string, Slice> {
    const from = this.ranks.index * this.partLength;
    const found = new Map<string, Slice>();
    for (const { name, numel, offset } of this.placed) {
      const start = Math.max(offset, from);
      const length = Math.min(offset + numel, from + this.partLength) - start;
      if (length > 0) found.set(name, { start: start - offset, length, offset: start - from });
    }
    return found;
  }

  #point(): void {
    tensorScope(() => {
      const views = this.viewsOf(this.#whole!);
      for (const [i, { parameter }] of this.placed.entries()) setData(parameter, views[i]![1]);
    });
  }
}

const setDataOp = op("aten::set_data");

function setData(parameter: Parameter, value: Tensor): void {
  noGrad(() => setDataOp(parameter, value));
}
