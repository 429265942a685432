/**
 * Linear attention: a short convolution, then a memory of fixed size that every token fades, corrects and reads. Yang et al. 2024.
 *
 * The layout hands it whole sequences, or their next tokens with the state that the tokens before have left: the last inputs of the
 * convolution, and the memory.
 */
import { arange, cat, empty, type TensorOptions } from "../../torch/create.ts";
import { createParameter } from "../../torch/nn/initialize.ts";
import { Module, type Parameter } from "../../torch/nn/module.ts";
import { RMSNorm } from "../../torch/nn/rms-norm.ts";
import { op } from "../../torch/operator.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLmConfig } from "./config.ts";
import { type LayerWeight, type LinearAttentionConfig, wholeWeight } from "./decoder-features.ts";
import { type DeltaInputs, deltaRule, deltaStep } from "./delta-rule.ts";
import { Projection, type ProjectionPart } from "./projection.ts";
import type { Carried, LinearState, TokenLayout } from "./token-layout.ts";

/** Shapes: C = 2 keyWidth + valueWidth channels of the convolution, H value heads. */
export class GatedDeltaNet extends Module {
  readonly input: Projection;
  readonly convolution: Parameter;
  readonly stepBias: Parameter;
  readonly logDecay: Parameter;
  readonly norm: RMSNorm;
  readonly output: Projection;
  readonly shape: LinearAttentionConfig;
  readonly #keyWidth: number;
  readonly #valueWidth: number;

  constructor({ width, normEps }: CausalLmConfig, config: LinearAttentionConfig, place: TensorOptions) {
    super();
    const { numValueHeads } = config;
    this.shape = config;
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
    const { valueSize } = this.shape;
    const { scanned, gate } = this.#split(this.input.forward(x_SD));
    const mixed = layout.scan(layer, scanned, {
      whole: (x_BTX) => this.#whole(x_BTX),
      advance: (x_BTX, past, lengths_B) => this.#advance(x_BTX, past, lengths_B),
    });
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
    const { numKeyHeads: G, numValueHeads: H, keySize, valueSize, hasGroupedInput } = this.shape;
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
  #whole(x_BTX: Tensor): Tensor {
    const { signal_BTC, b_BTH, a_BTH } = this.#parts(x_BTX);
    const { kernelSize } = this.shape;
    const convolved = this.#convolve(signal_BTC, kernelSize - 1).narrow(2, 0, x_BTX.size(1));
    return this.#joined(deltaRule(this.#deltaInputs(convolved, b_BTH, a_BTH)).read_BHTW, x_BTX);
  }

  /** The next tokens of sequences, which stand behind a state. Of row b only the first lengths_B[b] tokens count, where that is given. */
  #advance(x_BTX: Tensor, past: LinearState, lengths_B: Tensor | null): Carried {
    const T = x_BTX.size(1);
    const { signal_BTC, b_BTH, a_BTH } = this.#parts(x_BTX);
    const seen_BUC = cat([past.window_BPC, signal_BTC], 1);
    const convolved = T === 1 ? this.#convolveOne(seen_BUC) : this.#convolve(seen_BUC, 0);
    const inputs = this.#deltaInputs(convolved, b_BTH, a_BTH);
    const meant = lengths_B === null ? inputs : onlyFirst(inputs, lengths_B);
    const { read_BHTW, memory_BHKW } = (T === 1 ? deltaStep : deltaRule)(meant, past.memory_BHKW);
    const window_BPC = lastOf(seen_BUC, past.window_BPC.size(1), lengths_B);
    return { made_BTY: this.#joined(read_BHTW, x_BTX), next: { window_BPC, memory_BHKW } };
  }

  #parts(x_BTX: Tensor): { readonly signal_BTC: Tensor; readonly b_BTH: Tensor; readonly a_BTH: Tensor } {
    const { numValueHeads: H } = this.shape;
    const [signal_BTC, b_BTH, a_BTH] = x_BTX.splitSizes([linearChannels(this.shape), H, H], 2) as [
      Tensor,
      Tensor,
      Tensor,
    ];
    // Functions of values that lie apart are computed by other code, which rounds otherwise, and those of a single row never do.
    return { signal_BTC, b_BTH: b_BTH.contiguous(), a_BTH: a_BTH.contiguous() };
  }

  /** [B, T, C] to [B, C, T + padding - kernelSize + 1]. */
  #convolve(signal_BTC: Tensor, padding: number): Tensor {
    const channels = signal_BTC.size(2);
    return ops.conv1d(signal_BTC.transpose(1, 2), this.convolution, null, [1], [padding], [1], channels).silu();
  }

  /** The same for as many tokens as the convolution sees, by sums in a fixed order. */
  #convolveOne(seen_BUC: Tensor): Tensor {
    const weight_UC = this.convolution.squeeze(1).transpose(0, 1).to("float32");
    return seen_BUC.to("float32").mul(weight_UC).sum(1).to(seen_BUC.dtype).silu().unsqueeze(2);
  }

  #deltaInputs(convolved_BCT: Tensor, b_BTH: Tensor, a_BTH: Tensor): DeltaInputs {
    const { numKeyHeads: G, numValueHeads: H, keySize, valueSize } = this.shape;
    const [B, , T] = convolved_BCT.shape as [number, number, number];
    const widths = [this.#keyWidth, this.#keyWidth, this.#valueWidth];
    const [q, k, v] = convolved_BCT.splitSizes(widths, 1) as [Tensor, Tensor, Tensor];
    const heads = (x: Tensor, count: number, size: number) =>
      x.reshape(B, count, size, T).transpose(2, 3).to("float32");
    // Value heads share the queries and keys of their group.
    const unit = (x: Tensor) => {
      const x32 = heads(x, G, keySize);
      return ops.repeat(x32.mul(x32.square().sum(-1, true).add(1e-6).rsqrt()), H / G, 1);
    };
    const step = ops.softplus(a_BTH.to("float32").add(this.stepBias.to("float32")));
    return {
      q_BHTK: unit(q).mul(keySize ** -0.5),
      k_BHTK: unit(k),
      v_BHTW: heads(v, H, valueSize),
      logDecay_BHT: step.mul(this.logDecay.to("float32").exp().neg()).transpose(1, 2),
      beta_BHT: b_BTH.to("float32").sigmoid().transpose(1, 2),
    };
  }

  #joined(read_BHTW: Tensor, x_BTX: Tensor): Tensor {
    const [B, T] = x_BTX.shape as [number, number];
    return read_BHTW.transpose(1, 2).reshape(B, T, -1).to(x_BTX.dtype);
  }
}

/** Tokens past a row's length leave the memory as it is. */
function onlyFirst(inputs: DeltaInputs, lengths_B: Tensor): DeltaInputs {
  const { device } = lengths_B;
  const counts_B1T = arange(0, inputs.beta_BHT.size(2), { device }).lt(lengths_B.unsqueeze(1)).unsqueeze(1);
  return {
    ...inputs,
    logDecay_BHT: inputs.logDecay_BHT.mul(counts_B1T.to("float32")),
    beta_BHT: inputs.beta_BHT.mul(counts_B1T.to("float32")),
  };
}

/** The last P inputs before the first that does not count. Before the T new ones there are P others. */
function lastOf(seen_BUC: Tensor, P: number, lengths_B: Tensor | null): Tensor {
  const [B, U, C] = seen_BUC.shape as [number, number, number];
  if (lengths_B === null) return seen_BUC.narrow(1, U - P, P);
  const places_BP = lengths_B.unsqueeze(1).add(arange(0, P, { device: lengths_B.device }));
  return ops.gather(seen_BUC, 1, places_BP.unsqueeze(2).expand(B, P, C));
}

/** The number of channels of the convolution. */
export function linearChannels({ numKeyHeads, keySize, numValueHeads, valueSize }: LinearAttentionConfig): number {
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
  gather: op("aten::gather"),
} as const;
