/** Validation without training: weights and a run file in, the metrics of its validation out. Writes nothing. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import type { Metrics } from "../flow/metrics.ts";
import { wholeModel } from "../run/export-model.ts";
import { baseOfRun, type FoundModel } from "../run/find-model.ts";
import { HubPaths } from "../run/hub-paths.ts";
import { readsReference } from "../training/objectives/table.ts";
import { measuredExamples } from "./measured-sets.ts";
import type { PreparedTuning } from "./prepare-tuning.ts";
import { openTuningTrainer, validationMetrics } from "./train-tuning.ts";
import type { TuningConfig } from "./tuning-config.ts";

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
    const reference = config.reference ?? startOf(model, config);
    if (reference === null && readsReference(config.objective)) throw unknownReference(model, config);
    const evaluated = { ...config, reference, model: { ...config.model, lora: null } };
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

/** The model that the run started from; null where nobody can tell. */
function startOf({ runFolder }: FoundModel, { model }: TuningConfig): string | null {
  return runFolder === null ? model.path : baseOfRun(runFolder);
}

function unknownReference({ name }: FoundModel, { objective, model }: TuningConfig): RerollError {
  const why = model.path === null ? ", and the run file has no model.path that says which that is" : "";
  return new RerollError(
    "CONTRADICTORY_OPTIONS",
    `reference is missing: objective ${objective.type} compares ${name} with the model that it was trained from${why}. ` +
      "Give that model's folder with --set reference=FOLDER (a run that began with a preset keeps it in <run folder>/model), or evaluate the run folder.",
    { key: "reference" },
  );
}
