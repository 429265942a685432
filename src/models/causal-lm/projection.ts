/**
 * A linear map whose output is several named parts side by side, such as [query | key | value].
 *
 * One product is faster than three. The parts keep their names: checkpoints store them apart, and LoRA adapts them apart.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { cat, empty, type TensorOptions, zeros } from "../../torch/create.ts";
import { Collective } from "../../torch/distributed/collective.ts";
import { sumOver } from "../../torch/distributed/collective-functions.ts";
import type { Device } from "../../torch/dtype.ts";
import { createParameter } from "../../torch/nn/initialize.ts";
import { Module, type Parameter } from "../../torch/nn/module.ts";
import { linear } from "../../torch/steady-products.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { LayerPart, LayerWeight } from "./decoder-features.ts";
import { Fp8Matrix } from "./fp8-matrix.ts";
import { splitAlong } from "./model-spread.ts";
import { type Quantization, QuantizedMatrix } from "./quantized-matrix.ts";

/** A part of the output. */
export interface ProjectionPart {
  readonly name: LayerPart;
  readonly width: number;
}

/** The strength of an adapter: alpha / rank, or alpha / sqrt(rank) where it is rank-stabilized (Kalajdzievski 2023). */
interface LoraScaling {
  readonly alpha: number;
  readonly isRankStabilized: boolean;
}

/** A low-rank change of one part: y += scale * (x A') B'. A is [rank, in], B is [width, rank]. Hu et al. 2021. */
export class LoraAdapter extends Module {
  readonly part: LayerPart;
  readonly rank: number;
  readonly scaling: LoraScaling;
  readonly scale: number;
  readonly a: Parameter;
  readonly b: Parameter;

  constructor(part: LayerPart, a: Parameter, b: Parameter, scaling: LoraScaling) {
    super();
    this.part = part;
    this.rank = a.size(0);
    this.scaling = scaling;
    this.scale = scaling.alpha / (scaling.isRankStabilized ? Math.sqrt(this.rank) : this.rank);
    this.a = a;
    this.b = b;
  }

  /** The change of the part for x in the type of the adapter. */
  forward(x: Tensor): Tensor {
    return linear(linear(x, this.a).mul(this.scale), this.b);
  }
}

/** The ranks that have a part each of the output, or of the input, in which case their products are summed. Default: this one has all of it. */
interface ProjectionRanks {
  readonly input?: Collective;
  readonly output?: Collective;
}

export class Projection extends Module {
  /** Shape alone, on the device "meta", where the weight is quantized. */
  weight: Parameter;
  /** The weight in fewer bits, where it is, in place of `weight`: frozen, or written anew by every publication of weights. */
  quantized: QuantizedMatrix | Fp8Matrix | null = null;
  readonly bias: Parameter | null;
  /** The width of its input here; known also while the weight itself is elsewhere. */
  readonly inputWidth: number;
  readonly parts: readonly ProjectionPart[];
  /** At most one per part, all of one type. See lora.ts. */
  adapters: readonly LoraAdapter[] = [];
  readonly ranks: Required<ProjectionRanks>;

  constructor(
    inputWidth: number,
    parts: readonly ProjectionPart[],
    hasBias: boolean,
    place: TensorOptions,
    ranks: ProjectionRanks = {},
  ) {
    super();
    this.ranks = { input: Collective.alone, output: Collective.alone, ...ranks };
    const outputWidth = parts.reduce((sum, part) => sum + part.width, 0);
    this.parts = parts;
    this.inputWidth = inputWidth;
    this.weight = createParameter([outputWidth, inputWidth], empty, place);
    this.bias = hasBias ? createParameter([outputWidth], zeros, place) : null;
    const { input, output } = this.ranks;
    const widths = parts.map(({ width }) => width);
    this.weight.shard = splitAlong(0, widths, output) ?? splitAlong(1, [inputWidth], input);
    if (this.bias !== null) this.bias.shard = splitAlong(0, widths, output);
  }

  /** Whether it is the product with its weight and nothing else. */
  get isPlain(): boolean {
    const { bias, adapters, quantized, ranks } = this;
    return bias === null && adapters.length === 0 && quantized === null && ranks.input.count === 1;
  }

  forward(x: Tensor): Tensor {
    if (this.quantized !== null) return this.#quantizedForward(x, this.quantized);
    if (this.ranks.input.count === 1) return this.#product(x, this.bias);
    const y = sumOver(this.ranks.input, this.#product(x, null));
    return this.bias === null ? y : y.add(this.bias);
  }

  /** The same, and the bias gets no gradient from it: whoever goes on with the result knows a shorter way to that. */
  forwardHoldingBias(x: Tensor): Tensor {
    return this.#product(x, this.bias?.detach() ?? null);
  }

  /** Whether `forwardHoldingBias` is all that it does. */
  get isWholeProduct(): boolean {
    return this.quantized === null && this.ranks.input.count === 1;
  }

  #product(x: Tensor, bias: Tensor | null): Tensor {
    const y = linear(x, this.weight, bias);
    // In place: the product keeps nothing of its result, and the sum is rounded once to the type of the base.
    return this.adapters.length === 0 ? y : y.add_(this.#adapterOutput(x));
  }

  /** Replaces the weight by one of fewer bits on a device. It is not trained from then on. */
  quantize(quantization: Quantization | "fp8", device: Device): void {
    const { weight } = this;
    this.quantized =
      quantization === "fp8" ? new Fp8Matrix(weight, device) : new QuantizedMatrix(weight, quantization, device);
    this.weight = createParameter(weight.shape, empty, { device: "meta", dtype: weight.dtype });
    this.weight.requiresGrad = false;
    weight.dispose();
  }

  /** The values of the weight: a view, or a copy where it is quantized. */
  get values(): Tensor {
    return this.quantized?.expand() ?? this.weight.detach();
  }

  override dispose(): void {
    super.dispose();
    this.quantized?.dispose();
  }

  #quantizedForward(x: Tensor, quantized: QuantizedMatrix | Fp8Matrix): Tensor {
    const biased = this.#quantizedProduct(x, quantized);
    return this.adapters.length === 0 ? biased : biased.add(this.#adapterOutput(x).to(biased.dtype));
  }

  #quantizedProduct(x: Tensor, quantized: QuantizedMatrix | Fp8Matrix): Tensor {
    const { bias, ranks } = this;
    if (quantized instanceof Fp8Matrix && ranks.input.count === 1) return quantized.linear(x, bias);
    const y = sumOver(ranks.input, quantized.linear(x, null));
    return bias === null ? y : y.add(bias);
  }

  /** The rows of the output that belong to a part. */
  rangeOf(name: LayerPart): { readonly start: number; readonly width: number } {
    let start = 0;
    for (const part of this.parts) {
      if (part.name === name) return { start, width: part.width };
      start += part.width;
    }
    const known = this.parts.map((part) => part.name).join(", ");
    throw new RerollError("INVALID_ARGUMENT", `There is no projection "${name}" here. Known: ${known}.`);
  }

  /** The parts as checkpoints store them. */
  weights(): LayerWeight[] {
    const { weight, bias, quantized } = this;
    return this.parts.flatMap(({ name: part }) => {
      const { start, width } = this.rangeOf(part);
      const viewOf = (whole: Tensor) => whole.narrow(0, start, width);
      const own: LayerWeight = {
        ...{ part, kind: "weight", parameter: weight, viewOf, valuesOf: () => this.values },
        ...(quantized instanceof Fp8Matrix && { write: (values: Tensor) => quantized.write(start, values) }),
      };
      return bias === null ? [own] : [own, { part, kind: "bias", parameter: bias, viewOf }];
    });
  }

  #adapterOutput(x: Tensor): Tensor {
    const { dtype, device } = this.adapters[0]!.a;
    const input = x.to(dtype);
    const deltas = this.parts.map(({ name, width }) => {
      const adapter = this.adapters.find(({ part }) => part === name);
      return adapter?.forward(input) ?? zeros([...x.shape.slice(0, -1), width], { dtype, device });
    });
    return deltas.length === 1 ? deltas[0]! : cat(deltas, -1);
  }
}
