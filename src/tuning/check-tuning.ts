/** Finds keys of a tuning run that are valid on their own but cannot work together. Pure; each check says what to change. */
import { didYouMean } from "../errors/nearest-name.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { metricTable } from "../flow/metrics.ts";
import { onlyDataParallel } from "../training/strategy/strategy-options.ts";
import type { TuningConfig } from "./tuning-config.ts";

/** Throws for the first contradiction. */
export function checkTuning(config: TuningConfig): void {
  for (const check of CHECKS) {
    const problem = check(config);
    if (problem !== null) throw new RerollError("CONTRADICTORY_OPTIONS", problem);
  }
}

const CHECKS: readonly ((config: TuningConfig) => string | null)[] = [
  ({ objective }) =>
    objective.type === "reward-model" && objective.loss === "regression" && objective.useMargins
      ? 'objective.useMargins is true, and objective.loss is "regression", which learns scores and compares no replies. Leave useMargins out, or set loss to "bradley-terry".'
      : null,
  ({ validation }) =>
    validation !== null && ![validation.metric, `validation/${validation.metric}`].some((name) => metricTable.has(name))
      ? `validation.metric is ${JSON.stringify(validation.metric)}, and there is no such metric.${didYouMean(validation.metric, metricTable.keys())} Take "loss", or another one that the objective has.`
      : null,
  ({ validation }) =>
    validation !== null && validation.patience !== null && validation.every === 0
      ? `validation.patience is ${validation.patience} and validation.every is 0, so there is no validation to be patient about. Set validation.every.`
      : null,
  ({ training, contextLength }) =>
    training.maxTokensPerMicrobatch < contextLength
      ? `training.maxTokensPerMicrobatch must hold a whole sequence: got ${training.maxTokensPerMicrobatch}, and contextLength is ${contextLength}. Raise it, or lower contextLength.`
      : null,
  ({ training }) => onlyDataParallel(training.strategy, "training on given examples"),
];
