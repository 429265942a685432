/** Counts of experts that no router can serve are refused, by the key of the config that holds them. */
import type { ReadContext } from "./family.ts";

export function checkActiveExperts(
  numActive: number,
  { key, numExperts }: { readonly key: string; readonly numExperts: number },
  { invalid }: Pick<ReadContext, "invalid">,
): void {
  if (numActive > numExperts) {
    throw invalid(`num_experts_per_tok must be at most ${key}: got ${numActive} and ${numExperts}`);
  }
}
