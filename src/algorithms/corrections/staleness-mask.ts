import { RerollError } from "../../errors/reroll-error.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch, expectRange } from "../expect-batch.ts";

interface StalenessMaskInputs {
  /** The version of the weights that sampled each token; int64. Read at loss tokens only. */
  readonly versions_BT: Tensor;
  readonly lossMask_BT: Tensor;
}

export interface StalenessMaskOptions {
  /** The version of the weights being trained. */
  readonly currentVersion: number;
  /**
   * Tokens sampled by weights that are more than this many versions old are dropped. 0: only tokens of the current
   * weights are kept.
   */
  readonly maxStaleness: number;
  /**
   * What is dropped with a stale token: only itself, or its whole row. A reply can span versions when weights change in
   * flight.
   */
  readonly scope: "token" | "sequence";
}

/** The loss mask without tokens whose staleness, current version minus sampled version, is above the maximum. */
export function stalenessMask(inputs: StalenessMaskInputs, options: StalenessMaskOptions): Tensor {
  const { versions_BT, lossMask_BT } = inputs;
  const { currentVersion, maxStaleness, scope } = options;
  expectBatch(lossMask_BT);
  expectRange("maxStaleness", maxStaleness, 0);
  expectVersions(versions_BT, lossMask_BT);
  const isStale_BT = versions_BT.lt(currentVersion - maxStaleness);
  if (scope === "token") return lossMask_BT.logicalAnd(isStale_BT.logicalNot());
  const hasStale_B1 = lossMask_BT.logicalAnd(isStale_BT).sum(1, true).gt(0);
  return lossMask_BT.logicalAnd(hasStale_B1.logicalNot());
}

function expectVersions(versions_BT: Tensor, lossMask_BT: Tensor): void {
  const [got, wanted] = [versions_BT.shape, lossMask_BT.shape];
  if (got.join() === wanted.join() && versions_BT.dtype === "int64") return;
  throw new RerollError(
    "SHAPE_MISMATCH",
    `versions_BT must be int64 [${wanted.join(", ")}] like lossMask_BT: got ${versions_BT.dtype} [${got.join(", ")}].`,
    { versions_BT: got, lossMask_BT: wanted },
  );
}
