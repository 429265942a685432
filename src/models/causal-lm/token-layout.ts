/**
 * How the tokens of a forward pass are laid out, and so which tokens see which.
 *
 * The decoder works on a flat list of S tokens. Everything but attention treats them alone, so the layout is all that
 * tells a padded batch, packed sequences and a step with a cache apart.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { arange, cat, tensor } from "../../torch/create.ts";
import type { Device } from "../../torch/dtype.ts";
import { isExact } from "../../torch/exact.ts";
import { canAttendExactly, exactAttention, exactRows } from "../../torch/exact-attention.ts";
import { attention, packedAttention, rotate } from "../../torch/fused.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { Rotation } from "./rotary.ts";

/** Queries, keys and values of one layer, before rotation: [S, H, K], [S, G, K], [S, G, K]. */
export interface Heads {
  readonly q_SHK: Tensor;
  readonly k_SGK: Tensor;
  readonly v_SGK: Tensor;
}

/** What attention does in one layer, beyond the layout. */
export interface AttentionKind {
  /** How far back tokens see, themselves included; null for as far as there is. */
  readonly window: number | null;
  /** The factor on the scores; null for 1 / sqrt(K). */
  readonly scale: number | null;
  /** Scores are bent to stay within this; null for none. */
  readonly softCap: number | null;
  /** A score per head that takes its share of attention and gives no value. */
  readonly sinks_H: Tensor | null;
}

export interface TokenLayout {
  readonly numTokens: number;
  /** The position of every token in its sequence, int32 or int64. */
  readonly positions_S: Tensor;
  readonly maxPosition: number;
  /** Whether `attend` takes heads that lie within wider rows. Default false. */
  readonly takesViews?: boolean;
  /** Rotation and attention of one layer: [S, H, K]. */
  attend(layer: number, heads: Heads, rotation: Rotation | null, kind: AttentionKind): Tensor;
  /** What linear attention makes of the tokens of this pass, [S, X] to [S, Y]. */
  scan(layer: number, x_SX: Tensor, scan: LinearScan): Tensor;
}

/** How linear attention goes through sequences. What it makes of a token depends on that token and those before it alone. */
interface LinearScan {
  /** Whole sequences, [B, T, X] to [B, T, Y]. */
  whole(x_BTX: Tensor): Tensor;
  /** The next tokens of sequences. Where rows have fewer than T, `lengths_B` (int64) says how many; what is made of the others means nothing. */
  advance(x_BTX: Tensor, past: LinearState, lengths_B: Tensor | null): Carried;
}

/** What tokens leave behind for those that follow: the last P inputs of the convolution, and in float32 a matrix per head. Zeros at the start. */
export interface LinearState {
  readonly window_BPC: Tensor;
  readonly memory_BHKW: Tensor;
}

/** What was made of tokens, and what they leave. */
export interface Carried {
  readonly made_BTY: Tensor;
  readonly next: LinearState;
}

/** B rows of T tokens, row after row. Rows shorter than T are padded at the end; what is computed there means nothing. */
export function paddedLayout(B: number, T: number, device: Device = "cpu"): TokenLayout {
  return {
    numTokens: B * T,
    positions_S: arange(0, T, { device })
      .unsqueeze(0)
      .expand(B, T)
      .reshape(B * T),
    maxPosition: T - 1,
    takesViews: true,
    attend: (_layer, heads, rotation, kind) => {
      const { q_SHK, k_SGK, v_SGK } = rotateHeads(heads, rotation);
      const rows = (x: Tensor) => x.view(B, T, x.size(1), x.size(2)).transpose(1, 2);
      const out_BHTK = attention(rows(q_SHK), rows(k_SGK), rows(v_SGK), { isCausal: true, ...kind });
      return out_BHTK.transpose(1, 2).reshape(B * T, q_SHK.size(1), q_SHK.size(2));
    },
    scan: (_layer, x_SX, { whole }) => whole(x_SX.view(B, T, x_SX.size(1))).flatten(0, 1),
  };
}

/** Sequences of these lengths, end to end. No token is wasted and no token sees another sequence. */
export function packedLayout(lengths: readonly number[], device: Device = "cpu"): TokenLayout {
  if (lengths.length === 0 || lengths.some((length) => !Number.isInteger(length) || length < 1)) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      `packedLayout needs at least one sequence, each of at least one token: got lengths [${lengths.join(", ")}].`,
    );
  }
  const starts = new Int32Array(lengths.length + 1);
  lengths.forEach((length, row) => {
    starts[row + 1] = starts[row]! + length;
  });
  const numTokens = starts.at(-1)!;
  // Counted on the host: an operator per sequence takes longer than a layer over all of them.
  const positions = new Int32Array(numTokens);
  lengths.forEach((length, row) => {
    for (let i = 0; i < length; i++) positions[starts[row]! + i] = i;
  });
  const starts_int32 = tensor(starts, [starts.length], { device });
  const maxLength = Math.max(...lengths);
  const exact = device.startsWith("cuda") && isExact() ? exactRows(lengths, device) : null;
  return {
    numTokens,
    positions_S: tensor(positions, [numTokens], { device, dtype: "int64" }),
    maxPosition: maxLength - 1,
    takesViews: exact === null,
    attend: (_layer, heads, rotation, kind) => {
      const { q_SHK, k_SGK, v_SGK } = rotateHeads(heads, rotation);
      const isUsual = Object.values(kind).every((value) => value === null);
      if (exact !== null && isUsual && canAttendExactly(q_SHK))
        return exactAttention(q_SHK, k_SGK, v_SGK, exact, { lengths, starts_int32, maxLength });
      return packedAttention(q_SHK, k_SGK, v_SGK, { lengths, starts_int32, maxLength, ...kind });
    },
    scan: (_layer, x_SX, { whole }) => {
      const parts = x_SX.splitSizes(lengths).map((x_TX) => whole(x_TX.unsqueeze(0)).squeeze(0));
      return parts.length === 1 ? parts[0]! : cat(parts, 0);
    },
  };
}

/** Queries and keys turned by the angles of their positions; null turns nothing. */
export function rotateHeads({ q_SHK, k_SGK, v_SGK }: Heads, rotation: Rotation | null): Heads {
  if (rotation === null) return { q_SHK, k_SGK, v_SGK };
  return { q_SHK: turned(q_SHK, rotation), k_SGK: turned(k_SGK, rotation), v_SGK };
}

/** The first values of each head turned, as many as there are angles for. */
function turned(x_SHK: Tensor, { cos_SK, sin_SK }: Rotation): Tensor {
  const [R, K] = [2 * cos_SK.size(1), x_SHK.size(2)];
  if (R === K) return rotate(x_SHK, cos_SK, sin_SK);
  const [first, rest] = x_SHK.splitSizes([R, K - R], 2) as [Tensor, Tensor];
  return cat([rotate(first, cos_SK, sin_SK), rest], 2);
}
