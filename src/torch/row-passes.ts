/**
 * Passes over rows of float32 on the CPU, each one call where its composition is up to a dozen: what a decoder does to a token between two
 * products. A row is the last dimension; it lies in one piece, and rows may lie anywhere. Whoever has a composed form asks `areRows` first:
 * residual-norm.ts, fused.ts and the engine's paged-layout.ts.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { applyFunction, isGradEnabled } from "./autograd.ts";
import { native } from "./binding.ts";
import { Tensor } from "./tensor.ts";

/** Whether the passes take all of these tensors, of at most three dimensions. */
export function areRows(tensors: readonly Tensor[]): boolean {
  return native.areRows(tensors.map(({ handle }) => handle));
}

/** What `residualNorm` says, in either direction. */
export function residualNormRows(
  x: Tensor,
  delta: Tensor | null,
  weight: Tensor,
  eps: number,
): { readonly sum: Tensor; readonly normed: Tensor } {
  const [sum, normed] = applyFunction(
    {
      forward: ([x, weight, delta = null]) => {
        const [sum, normed, means] = native.residualNorm(x!.handle, delta?.handle ?? null, weight!.handle, eps);
        const stream = sum === null ? x! : new Tensor(sum);
        return { outputs: [stream, new Tensor(normed)], saved: [stream, weight!, new Tensor(means)] };
      },
      backward: ([gradSum = null, gradNormed = null], [sum, weight, means]) => {
        expectNoGraph();
        const others = delta === null ? [] : [null];
        if (gradNormed === null) return [gradSum, null, ...others.map(() => gradSum)];
        const [gradient, gradWeight] = native
          .residualNormBackward(
            gradNormed.contiguous().handle,
            gradSum?.contiguous().handle ?? null,
            sum!.handle,
            weight!.handle,
            means!.handle,
            eps,
          )
          .map((handle) => new Tensor(handle)) as [Tensor, Tensor];
        return [gradient, gradWeight, ...others.map(() => gradient)];
      },
    },
    delta === null ? [x, weight] : [x, weight, delta],
  );
  return { sum: sum!, normed: normed! };
}

/** A gradient that is computed in one call has none itself: better no number than a wrong one. */
function expectNoGraph(): void {
  if (!isGradEnabled()) return;
  throw new RerollError(
    "INVALID_ARGUMENT",
    "createGraph does not go through a norm on the CPU: its gradient is one call, which has no gradient. Compose the norm of operators where gradients of gradients are needed.",
  );
}

/** Heads turned by the angles of their tokens, or back: x is [S, H, K], cos and sin are [S, K/2]. */
export function rotateRows(x_SHK: Tensor, cos_SK: Tensor, sin_SK: Tensor, sign: 1 | -1): Tensor {
  return new Tensor(native.rotateRows(x_SHK.handle, cos_SK.handle, sin_SK.handle, sign));
}

/** Row i of x becomes row `slots_S[i]` (int32) of `into`. */
export function storeRows_(into: Tensor, slots_S: Tensor, x: Tensor): void {
  native.storeRows(x.handle, slots_S.handle, into.handle);
}

/** Per row, in float64. */
interface SampledRows {
  /** -1 for a row with NaN, whose log-probabilities are NaN. */
  readonly tokens: Float64Array;
  /** At the temperature; 0 where that is 0. */
  readonly samplerLogprobs: Float64Array;
  /** At temperature 1. */
  readonly modelLogprobs: Float64Array;
}

/** Draws a token per row of scores; `uniforms` in [0, 1) choose it by inverting the cumulative distribution. Temperature 0 takes the best. */
export function sampleRows(scores_BV: Tensor, temperatures: Float64Array, uniforms: Float64Array): SampledRows {
  const B = temperatures.length;
  const out = new Float64Array(3 * B);
  native.sampleRows(scores_BV.handle, temperatures, uniforms, out);
  const [tokens, samplerLogprobs, modelLogprobs] = [0, 1, 2].map((part) => out.subarray(part * B, (part + 1) * B));
  return { tokens: tokens!, samplerLogprobs: samplerLogprobs!, modelLogprobs: modelLogprobs! };
}
