/**
 * Linear attention: a short convolution, then a memory of fixed size that every token fades, corrects and reads. Yang et al. 2024.
 *
 * The layout hands it whole sequences. With a cache that means from their first token on, at every step: right for any order of tokens,
 * cuts and shared beginnings, and slower than carrying the memory along.
 */
import { cat, empty, type TensorOptions } from "../../torch/create.ts";
import { createParameter } from "../../torch/nn/initialize.ts";
import { Module, type Parameter } from "../../torch/nn/module.ts";
import { RMSNorm } from "../../torch/nn/rms-norm.ts";
import { op } from "../../torch/operator.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLmConfig } from "./config.ts";
import { type LayerWeight, type LinearAttentionConfig, wholeWeight } from "./decoder-features.ts";
import { deltaRule } from "./delta-rule.ts";
import { Projection, type ProjectionPart } from "./projection.ts";
import type { TokenLayout } from "./token-layout.ts";

/** Shapes: C = 2 keyWidth + valueWidth channels of the convolution, H value heads. */
export class GatedDeltaNet extends Module {
  readonly input: Projection;
  readonly convolution: Parameter;
  readonly stepBias: Parameter;
  readonly logDecay: Parameter;
  readonly norm: RMSNorm;
  readonly output: Projection;
  readonly #config: LinearAttentionConfig;
  readonly #keyWidth: number;
  readonly #valueWidth: number;

  constructor({ width, normEps }: CausalLmConfig, config: LinearAttentionConfig, place: TensorOptions) {
    super();
    const { numValueHeads } = config;
    this.#config = config;
    this.#keyWidth = config.numKeyHeads * config.keySize;
    this.#valueWidth = numValueHeads * config.valueSize;
    const numChannels = linearChannels(config);
    const parts: readonly ProjectionPart[] = config.hasGroupedInput
      ? [
          { name: "linearQkvz", width: numChannels + this.#valueWidth },
          { name: "linearBa", width: 2 * numValueHeads },
        ]
      : [
          { name: "linearQkv", width: numChannels },
          { name: "linearZ", width: this.#valueWidth },
          { name: "linearB", width: numValueHeads },
          { name: "linearA", width: numValueHeads },
        ];
    this.input = new Projection(width, parts, false, place);
    this.convolution = createParameter([numChannels, 1, config.kernelSize], empty, place);
    this.stepBias = createParameter([numValueHeads], empty, place);
    this.logDecay = createParameter([numValueHeads], empty, place);
    this.norm = new RMSNorm(config.valueSize, { eps: normEps, ...place });
    this.output = new Projection(this.#valueWidth, [{ name: "linearOutput", width }], false, place);
  }

  forward(x_SD: Tensor, layer: number, layout: TokenLayout): Tensor {
    const S = x_SD.size(0);
    const { valueSize } = this.#config;
    const { scanned, gate } = this.#split(this.input.forward(x_SD));
    const mixed = layout.scan(layer, scanned, (rows) => this.#mix(rows));
    const normed = this.norm.forward(mixed.view(-1, valueSize));
    const gated = normed.mul(gate.reshape(-1, valueSize).to("float32").silu()).to(x_SD.dtype);
    return this.output.forward(gated.view(S, -1));
  }

  weights(): LayerWeight[] {
    return [
      ...this.input.weights(),
      wholeWeight("linearConvolution", this.convolution),
      wholeWeight("linearStepBias", this.stepBias, "bare"),
      wholeWeight("linearLogDecay", this.logDecay, "bare"),
      wholeWeight("linearNorm", this.norm.weight),
      ...this.output.weights(),
    ];
  }

  get projections(): readonly Projection[] {
    return [this.input, this.output];
  }

  /** What the mixing of tokens takes, [S, C + 2 H], and the gate on what it gives. */
  #split(projected: Tensor): { readonly scanned: Tensor; readonly gate: Tensor } {
    const { numKeyHeads: G, numValueHeads: H, keySize, valueSize, hasGroupedInput } = this.#config;
    const S = projected.size(0);
    const channels = 2 * this.#keyWidth + this.#valueWidth;
    if (!hasGroupedInput) {
      const [qkv, gate, ba] = projected.splitSizes([channels, this.#valueWidth, 2 * H], 1) as [Tensor, Tensor, Tensor];
      return { scanned: cat([qkv, ba], 1), gate };
    }
    const [qkvz, ba] = projected.splitSizes([channels + this.#valueWidth, 2 * H], 1) as [Tensor, Tensor];
    const perGroup = (H / G) * valueSize;
    const groups = qkvz.reshape(S, G, -1).splitSizes([keySize, keySize, perGroup, perGroup], 2);
    const [q, k, v, gate] = groups.map((part) => part.reshape(S, -1)) as [Tensor, Tensor, Tensor, Tensor];
    const [b, a] = ba
      .reshape(S, G, -1)
      .splitSizes([H / G, H / G], 2)
      .map((part) => part.reshape(S, -1)) as [Tensor, Tensor];
    return { scanned: cat([q, k, v, b, a], 1), gate };
  }

  /** Whole sequences, [B, T, C + 2 H] to [B, T, valueWidth]. */
  #mix(rows: Tensor): Tensor {
    const { numKeyHeads: G, numValueHeads: H, keySize, valueSize, kernelSize } = this.#config;
    const [B, T] = rows.shape as [number, number];
    const channels = 2 * this.#keyWidth + this.#valueWidth;
    const [signal, b, a] = rows.splitSizes([channels, H, H], 2) as [Tensor, Tensor, Tensor];
    const convolved = ops
      .conv1d(signal.transpose(1, 2), this.convolution, null, [1], [kernelSize - 1], [1], channels)
      .narrow(2, 0, T)
      .silu()
      .transpose(1, 2);
    const heads = (x: Tensor, count: number, size: number) =>
      x.reshape(B, T, count, size).transpose(1, 2).to("float32");
    const [q, k, v] = convolved.splitSizes([this.#keyWidth, this.#keyWidth, this.#valueWidth], 2) as [
      Tensor,
      Tensor,
      Tensor,
    ];
    // Value heads share the queries and keys of their group.
    const unit = (x: Tensor) => {
      const x32 = heads(x, G, keySize);
      return ops.repeat(x32.mul(x32.square().sum(-1, true).add(1e-6).rsqrt()), H / G, 1);
    };
    const step = ops.softplus(a.to("float32").add(this.stepBias.to("float32")));
    const mixed = deltaRule({
      q_BHTK: unit(q).mul(keySize ** -0.5),
      k_BHTK: unit(k),
      v_BHTW: heads(v, H, valueSize),
      logDecay_BHT: step.mul(this.logDecay.to("float32").exp().neg()).transpose(1, 2),
      beta_BHT: b.to("float32").sigmoid().transpose(1, 2),
    });
    return mixed.transpose(1, 2).reshape(B, T, -1).to(rows.dtype);
  }
}

/** The number of channels of the convolution. */
function linearChannels({ numKeyHeads, keySize, numValueHeads, valueSize }: LinearAttentionConfig): number {
  return 2 * numKeyHeads * keySize + numValueHeads * valueSize;
}

/** The number of values that a layer of linear attention takes from each token: see TokenLayout.scan. */
export function linearInputWidth(config: LinearAttentionConfig): number {
  return linearChannels(config) + 2 * config.numValueHeads;
}

const ops = {
  conv1d: op("aten::conv1d"),
  softplus: op("aten::softplus"),
  repeat: op("aten::repeat_interleave.self_int"),
} as const;
