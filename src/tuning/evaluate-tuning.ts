/** Validation without training: weights and a run file in, the metrics of its validation out. Writes nothing. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import type { Metrics } from "../flow/metrics.ts";
import { wholeModel } from "../run/export-model.ts";
import type { FoundModel } from "../run/find-model.ts";
import type { PreparedTuning } from "./prepare-tuning.ts";
import { openTuningTrainer, validationMetrics } from "./train-tuning.ts";

/** The metrics of one validation. */
export async function evaluateTuning(model: FoundModel, { config, data }: PreparedTuning): Promise<Metrics> {
  if (data.validation === null) {
    throw new RerollError(
      "INVALID_OPTION",
      "The run file has no validation: there are no rows to evaluate on. Set validation, or add --set validation.share=0.05.",
    );
  }
  const scratch = await mkdtemp(join(tmpdir(), "reroll-merged-"));
  try {
    const folder = await wholeModel(model, scratch);
    const trainer = await openTuningTrainer({ ...config, model: { ...config.model, lora: null } }, folder, 1);
    try {
      return validationMetrics(await trainer.evaluate(data.validation.examples));
    } finally {
      await trainer.close();
    }
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
