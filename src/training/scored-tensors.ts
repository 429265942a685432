/** The tensors of a scored batch outlive the scope that made them: they are kept for a step, then freed together. */
import type { ScoredBatch } from "../flow/token-batch.ts";
import { keep } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";

export function tensorsOf(scored: ScoredBatch): readonly Tensor[] {
  const { denominators: _, groupOf: __, trajectoryOf: ___, metrics, entropyCoefficient: ____, ...tensors } = scored;
  return [...Object.values(tensors), ...Object.values(metrics)].filter((value) => value !== null);
}

export function keepScored(scored: ScoredBatch): ScoredBatch {
  for (const value of tensorsOf(scored)) keep(value);
  return scored;
}

export function disposeScored(scored: ScoredBatch): void {
  for (const value of new Set(tensorsOf(scored))) value.dispose();
}
