/** Validation without training: weights and a run file in, the metrics of its validation out. Writes nothing. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import type { Metrics } from "../flow/metrics.ts";
import { wholeModel } from "../run/export-model.ts";
import { baseOfRun, type FoundModel } from "../run/find-model.ts";
import { HubPaths } from "../run/hub-paths.ts";
import { measuredExamples } from "./measured-sets.ts";
import type { PreparedTuning } from "./prepare-tuning.ts";
import { openTuningTrainer, validationMetrics } from "./train-tuning.ts";

/** The metrics of one validation. Where the run file names no reference, it is the model that the run started from. */
export async function evaluateTuning(
  model: FoundModel,
  { config, data }: PreparedTuning,
  paths = new HubPaths(),
): Promise<Metrics> {
  if (data.validation === null) {
    throw new RerollError(
      "INVALID_OPTION",
      "The run file has no validation: there are no rows to evaluate on. Set validation, or add --set validation.share=0.05.",
    );
  }
  const scratch = await mkdtemp(join(tmpdir(), "reroll-merged-"));
  try {
    const folder = await wholeModel(model, scratch, paths);
    const base = model.runFolder === null ? config.model.path : baseOfRun(model.runFolder);
    const evaluated = { ...config, reference: config.reference ?? base, model: { ...config.model, lora: null } };
    const trainer = await openTuningTrainer(evaluated, folder, 1);
    try {
      const { examples } = data.validation;
      return validationMetrics(await trainer.evaluate(await measuredExamples(trainer, examples)));
    } finally {
      await trainer.close();
    }
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
