/**
 * The gated delta rule: attention whose memory is one matrix per head, in time linear in the tokens. Yang et al. 2024.
 *
 * Each token fades the matrix, corrects what it holds under the token's key, and reads it with the token's query:
 * S = exp(g) S; S = S + k (beta (v - S' k))'; o = S' q. Chunks of tokens are computed at once, as the paper's section 3.3 does: within a
 * chunk the corrections solve a triangular system; from chunk to chunk only the matrix is handed on.
 *
 * Shapes: B rows, H heads, T tokens, K key size, W value size, N chunks of C tokens.
 */
import { cat, zeros } from "../../torch/create.ts";
import { op } from "../../torch/operator.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** In float32. Queries and keys as they enter the products: of unit length, and queries scaled. */
export interface DeltaInputs {
  readonly q_BHTK: Tensor;
  readonly k_BHTK: Tensor;
  readonly v_BHTW: Tensor;
  /** The logarithm of what is left of the matrix at each token, at most 0. */
  readonly logDecay_BHT: Tensor;
  /** The share of the correction that is made. */
  readonly beta_BHT: Tensor;
}

const chunkSize = 64;

/** What each token reads, and the matrices after the last one. */
interface DeltaReading {
  readonly read_BHTW: Tensor;
  readonly memory_BHKW: Tensor;
}

/** Reads token after token, starting from these matrices; without, from empty ones. */
export function deltaRule(
  { q_BHTK, k_BHTK, v_BHTW, logDecay_BHT, beta_BHT }: DeltaInputs,
  past_BHKW: Tensor | null = null,
): DeltaReading {
  const [B, H, T, K] = k_BHTK.shape as [number, number, number, number];
  const W = v_BHTW.size(3);
  const C = Math.min(chunkSize, T);
  const N = Math.ceil(T / C);
  const place = { dtype: k_BHTK.dtype, device: k_BHTK.device };
  // Tokens that fill up the last chunk have a beta of 0, so they change nothing.
  const filled = (x: Tensor) => {
    const shape = [...x.shape];
    shape[2] = N * C - T;
    return shape[2] === 0 ? x : cat([x, zeros(shape, place)], 2);
  };
  const chunked = (x: Tensor) => filled(x).reshape(B, H, N, C, ...x.shape.slice(3));
  const [q, k] = [chunked(q_BHTK), chunked(k_BHTK)];
  const [kBeta, vBeta] = [k_BHTK, v_BHTW].map((x) => chunked(x.mul(beta_BHT.unsqueeze(-1)))) as [Tensor, Tensor];
  const logDecay = chunked(logDecay_BHT);
  // The decay from token j to token i of a chunk, and 0 for later tokens. Summed from j on: where tokens forget much, the difference of
  // two sums from the start would be that of large numbers.
  const steps = ops.tril(logDecay.unsqueeze(-1).expand(B, H, N, C, C), -1);
  const between = ops.tril(ops.cumsum(steps, -2).exp(), 0);
  const system = kBeta.matmul(k.transpose(-1, -2)).mul(between);
  const fromStart = ops.cumsum(logDecay, -1).exp().unsqueeze(-1);
  const solve = (right: Tensor) => ops.solve(system, right, false, true, true);
  const written = solve(vBeta);
  const read = solve(kBeta.mul(fromStart));
  const within = q.matmul(k.transpose(-1, -2)).mul(between);
  const queries = q.mul(fromStart);
  const keys = k.mul(between.select(-2, C - 1).unsqueeze(-1));
  let memory = past_BHKW ?? zeros([B, H, K, W], place);
  const outputs = Array.from({ length: N }, (_, n) => {
    const at = (x: Tensor) => x.select(2, n);
    const change = at(written).sub(at(read).matmul(memory));
    const output = at(queries).matmul(memory).add(at(within).matmul(change));
    memory = memory.mul(at(fromStart).narrow(-2, C - 1, 1)).add(at(keys).transpose(-1, -2).matmul(change));
    return output;
  });
  return { read_BHTW: cat(outputs, 2).narrow(2, 0, T), memory_BHKW: memory };
}

/**
 * One token, as the rule is defined. In products of single values and sums in a fixed order: what a row gets does not depend, to the bit,
 * on the rows beside it.
 */
export function deltaStep(
  { q_BHTK, k_BHTK, v_BHTW, logDecay_BHT, beta_BHT }: DeltaInputs,
  past_BHKW: Tensor,
): DeltaReading {
  const column = (x_BHTK: Tensor) => x_BHTK.transpose(2, 3);
  const faded_BHKW = past_BHKW.mul(logDecay_BHT.exp().unsqueeze(-1));
  const held_BHTW = faded_BHKW.mul(column(k_BHTK)).sum(2, true);
  const change_BHTW = v_BHTW.sub(held_BHTW).mul(beta_BHT.unsqueeze(-1));
  const memory_BHKW = faded_BHKW.add(column(k_BHTK).mul(change_BHTW));
  return { read_BHTW: memory_BHKW.mul(column(q_BHTK)).sum(2, true), memory_BHKW };
}

const ops = {
  cumsum: op("aten::cumsum"),
  tril: op("aten::tril"),
  solve: op("aten::linalg_solve_triangular"),
} as const;
