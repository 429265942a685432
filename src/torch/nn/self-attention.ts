/** Multi-head self-attention with a projection before and after. */
import { RerollError } from "../../errors/reroll-error.ts";
import { attention } from "../fused.ts";
import type { Tensor } from "../tensor.ts";
import { expectWidth } from "./expect-width.ts";
import type { InitializeOptions, Initializer } from "./initialize.ts";
import { Linear } from "./linear.ts";
import { Module } from "./module.ts";
import { applyRope, type RopeTables } from "./rope.ts";

/** The shape of a SelfAttention, and how it starts. */
export interface SelfAttentionOptions extends InitializeOptions {
  readonly width: number;
  readonly numHeads: number;
  /** Fewer than numHeads lets query heads share keys and values. Must divide numHeads. Default numHeads. */
  readonly numKeyValueHeads?: number;
  /** Default width / numHeads. */
  readonly headSize?: number;
  /** Bias of all four projections. Default true, as in PyTorch. */
  readonly hasBias?: boolean;
  /** Weight of all four projections. Default as in Linear. */
  readonly initialWeight?: Initializer;
}

/** What positions see of each other. */
export interface SelfAttentionInputs {
  /** Position t sees positions up to t. Default false. Not together with `mask`. */
  readonly isCausal?: boolean;
  /** Bool, true where a query may see a key; broadcast to [B, H, T, T]. */
  readonly mask?: Tensor;
  /** Rotates queries and keys; the tables need T rows or more. Default none. */
  readonly rope?: RopeTables;
}

/** Every position looks at the others: [B, T, D] to [B, T, D]. */
export class SelfAttention extends Module {
  readonly query: Linear;
  readonly key: Linear;
  readonly value: Linear;
  readonly output: Linear;
  readonly width: number;
  readonly headSize: number;

  constructor(options: SelfAttentionOptions) {
    super();
    const { width, numHeads, numKeyValueHeads = numHeads, headSize = width / numHeads, ...linear } = options;
    expectHeads({ width, numHeads, numKeyValueHeads, headSize });
    this.width = width;
    this.headSize = headSize;
    this.query = new Linear(width, numHeads * headSize, linear);
    this.key = new Linear(width, numKeyValueHeads * headSize, linear);
    this.value = new Linear(width, numKeyValueHeads * headSize, linear);
    this.output = new Linear(numHeads * headSize, width, linear);
  }

  forward(x_BTD: Tensor, { rope, ...seen }: SelfAttentionInputs = {}): Tensor {
    expectWidth("SelfAttention", x_BTD, this.width);
    const T = x_BTD.size(1);
    const rotate = rotation(rope, T);
    const q_BHTK = rotate(this.#heads(this.query.forward(x_BTD)));
    const k_BHTK = rotate(this.#heads(this.key.forward(x_BTD)));
    const v_BHTK = this.#heads(this.value.forward(x_BTD));
    const mixed_BHTK = attention(q_BHTK, k_BHTK, v_BHTK, seen);
    return this.output.forward(mixed_BHTK.transpose(1, 2).flatten(2));
  }

  #heads(x_BTD: Tensor): Tensor {
    return x_BTD.view(x_BTD.size(0), x_BTD.size(1), -1, this.headSize).transpose(1, 2);
  }
}

function rotation(rope: RopeTables | undefined, T: number): (x_BHTK: Tensor) => Tensor {
  if (rope === undefined) return (x_BHTK) => x_BHTK;
  const positions = rope.cos_TK.size(0);
  if (positions < T) {
    throw new RerollError(
      "SHAPE_MISMATCH",
      `rope has tables for ${positions} positions but the input has ${T}. Make them with ropeTables(${T}, ...) or more.`,
    );
  }
  const cos_TK = rope.cos_TK.narrow(0, 0, T);
  const sin_TK = rope.sin_TK.narrow(0, 0, T);
  return (x_BHTK) => applyRope(x_BHTK, cos_TK, sin_TK);
}

interface HeadSizes {
  readonly width: number;
  readonly numHeads: number;
  readonly numKeyValueHeads: number;
  readonly headSize: number;
}

function expectHeads({ width, numHeads, numKeyValueHeads, headSize }: HeadSizes): void {
  if (!Number.isInteger(headSize)) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      `width must be a multiple of numHeads: got ${width} and ${numHeads}. Change one of them, or set headSize.`,
    );
  }
  if (numHeads % numKeyValueHeads !== 0) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      `numKeyValueHeads must divide numHeads: got ${numKeyValueHeads} and ${numHeads}.`,
    );
  }
}
