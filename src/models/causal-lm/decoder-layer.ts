/** One layer of the decoder: attention and MLP, each around a normalized copy of the residual stream. */
import { ones, type TensorOptions } from "../../torch/create.ts";
import { rmsNorm, swiglu } from "../../torch/fused.ts";
import { createParameter } from "../../torch/nn/initialize.ts";
import { Module, type Parameter } from "../../torch/nn/module.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLmConfig } from "./config.ts";
import { Experts } from "./experts.ts";
import { Projection } from "./projection.ts";
import type { Rotation } from "./rotary.ts";
import type { TokenLayout } from "./token-layout.ts";

/** x / rms(x) * weight. */
export class Norm extends Module {
  readonly weight: Parameter;
  readonly #eps: number;

  constructor(width: number, eps: number, place: TensorOptions) {
    super();
    this.weight = createParameter([width], ones, place);
    this.#eps = eps;
  }

  forward(x: Tensor): Tensor {
    return rmsNorm(x, this.weight, this.#eps);
  }
}

export class Attention extends Module {
  readonly qkv: Projection;
  readonly output: Projection;
  readonly queryNorm: Norm | null;
  readonly keyNorm: Norm | null;
  readonly #config: CausalLmConfig;

  constructor(config: CausalLmConfig, place: TensorOptions) {
    super();
    const { width, numHeads, numKeyValueHeads, headSize, normEps } = config;
    const parts = [
      { name: "q_proj", width: numHeads * headSize },
      { name: "k_proj", width: numKeyValueHeads * headSize },
      { name: "v_proj", width: numKeyValueHeads * headSize },
    ];
    this.#config = config;
    this.qkv = new Projection(width, parts, config.hasQkvBias, place);
    this.output = new Projection(numHeads * headSize, [{ name: "o_proj", width }], config.hasOutputBias, place);
    this.queryNorm = config.hasHeadNorm ? new Norm(headSize, normEps, place) : null;
    this.keyNorm = config.hasHeadNorm ? new Norm(headSize, normEps, place) : null;
  }

  forward(x_SD: Tensor, layer: number, layout: TokenLayout, rotation: Rotation): Tensor {
    const { numHeads: H, numKeyValueHeads: G, headSize: K } = this.#config;
    const S = x_SD.size(0);
    const [q, k, v] = this.qkv
      .forward(x_SD)
      .view(S, H + 2 * G, K)
      .splitSizes([H, G, G], 1) as [Tensor, Tensor, Tensor];
    const heads = {
      q_SHK: this.queryNorm?.forward(q) ?? q,
      k_SGK: this.keyNorm?.forward(k) ?? k,
      v_SGK: v,
    };
    const mixed_SHK = layout.attend(layer, heads, rotation, this.#config.slidingWindow);
    return this.output.forward(mixed_SHK.reshape(S, H * K));
  }
}

export class Mlp extends Module {
  readonly gateUp: Projection;
  readonly down: Projection;

  constructor({ width, mlpWidth, hasMlpBias }: CausalLmConfig, place: TensorOptions) {
    super();
    const parts = [
      { name: "gate_proj", width: mlpWidth },
      { name: "up_proj", width: mlpWidth },
    ];
    this.gateUp = new Projection(width, parts, hasMlpBias, place);
    this.down = new Projection(mlpWidth, [{ name: "down_proj", width }], hasMlpBias, place);
  }

  forward(x_SD: Tensor): Tensor {
    return this.down.forward(swiglu(this.gateUp.forward(x_SD)));
  }
}

export class DecoderLayer extends Module {
  readonly inputNorm: Norm;
  readonly attention: Attention;
  readonly postAttentionNorm: Norm;
  readonly mlp: Mlp | Experts;

  constructor(config: CausalLmConfig, place: TensorOptions) {
    super();
    this.inputNorm = new Norm(config.width, config.normEps, place);
    this.attention = new Attention(config, place);
    this.postAttentionNorm = new Norm(config.width, config.normEps, place);
    this.mlp = config.experts === null ? new Mlp(config, place) : new Experts(config.width, config.experts, place);
  }

  forward(x_SD: Tensor, layer: number, layout: TokenLayout, rotation: Rotation): Tensor {
    // Scopes free at once what the graph does not keep; without a graph that is everything but the result.
    const attended_SD = tensorScope(() =>
      x_SD.add(this.attention.forward(this.inputNorm.forward(x_SD), layer, layout, rotation)),
    );
    return tensorScope(() => attended_SD.add(this.mlp.forward(this.postAttentionNorm.forward(attended_SD))));
  }
}
