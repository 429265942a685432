/**
 * The objectives of runs on given data, by name: their options, and how each is built for a model.
 *
 * To add one: a file with its options and its function, a line here, and a line in src/tuning/examples/table.ts, which says what it reads.
 */
import { z } from "zod";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import type { ValueHead } from "../../models/causal-lm/value-head.ts";
import { distillation, distillationOptions } from "./distillation.ts";
import { kto, ktoOptions } from "./kto.ts";
import type { Objective } from "./objective.ts";
import { dpo, dpoOptions, ipo, ipoOptions, orpo, orpoOptions, simpo, simpoOptions } from "./preference.ts";
import { newScoringHead, rewardModel, rewardModelOptions } from "./reward-model.ts";
import { supervised, supervisedOptions } from "./supervised.ts";

/** The `objective` part of a run file. */
export const objectiveOptions = z.discriminatedUnion("type", [
  supervisedOptions,
  distillationOptions,
  dpoOptions,
  ipoOptions,
  ktoOptions,
  orpoOptions,
  simpoOptions,
  rewardModelOptions,
]);

/** An objective with all defaults filled in. */
export type ObjectiveChoice = z.output<typeof objectiveOptions>;

/** Whether an objective holds the model to a reference. */
export function readsReference({ type }: ObjectiveChoice): boolean {
  return type === "dpo" || type === "ipo" || type === "kto";
}

/** Builds an objective in the trainer that holds the model. `seed` draws what it adds to the model, `head` is there already. */
export function buildObjective(choice: ObjectiveChoice, model: CausalLm, seed: number, head?: ValueHead): Objective {
  switch (choice.type) {
    case "supervised":
      return supervised();
    case "distillation":
      return distillation(choice, model);
    case "dpo":
      return dpo(choice);
    case "ipo":
      return ipo(choice);
    case "kto":
      return kto(choice);
    case "orpo":
      return orpo(choice);
    case "simpo":
      return simpo(choice);
    case "reward-model":
      return rewardModel(choice, model, head ?? newScoringHead(model, seed));
  }
}
