/**
 * Ends a run whose updates come to nothing: their losses or gradients are not finite, one after another.
 *
 * A single update that is skipped is counted and shown; many in a row mean that something is broken for good. The batch of the last one
 * is left in the run folder as `skipped-batch.jsonl`: a `TokenSample` or a `TuningExample` per line, with lists in the place of arrays.
 * NaN and the infinities are written as text, because JSON has no number for them.
 */
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { replaceText } from "../files/replace-file.ts";
import type { StepReport } from "../training/token-trainer.ts";

/** With Adam's usual settings the moments outlive a few skipped updates; ten in a row are no accident any more. */
const MAX_SKIPPED_IN_ROW = 10;

/** Gives the report back, or saves the batch and throws where too many updates were skipped one after another. */
export async function expectProgress(
  report: StepReport,
  batch: readonly object[],
  runFolder: string,
): Promise<StepReport> {
  const { numSkippedInRow } = report;
  if (numSkippedInRow < MAX_SKIPPED_IN_ROW) return report;
  const path = join(runFolder, "skipped-batch.jsonl");
  await replaceText(path, batch.map((one) => `${JSON.stringify(one, asJson)}\n`).join(""));
  throw new RerollError(
    "NON_FINITE_UPDATES",
    `${numSkippedInRow} updates in a row were skipped, because their loss or gradients are NaN or infinite. The weights are those before them. ` +
      `The last batch is in ${path}: look for extreme rewards and log-probs in it, lower the learning rate, or go back to an earlier checkpoint.`,
    { numSkippedInRow, path },
  );
}

function asJson(_key: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  return ArrayBuffer.isView(value) ? [...(value as Float32Array)] : value;
}
