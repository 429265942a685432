/** Copies between lists of tensors. */
import { hasOp, op } from "../operator.ts";
import type { Tensor } from "../tensor.ts";

/** Copies each source into the target of its place, converting types, in one call where libtorch has one. */
export function copyAll(targets: readonly Tensor[], sources: readonly Tensor[]): void {
  if (targets.length === 0) return;
  if (hasOp("aten::_foreach_copy_")) foreachCopy_(targets, sources);
  else for (const [i, target] of targets.entries()) target.copy_(sources[i]!);
}

const foreachCopy_ = op("aten::_foreach_copy_");
