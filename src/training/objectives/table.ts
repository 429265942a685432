/**
 * The objectives of runs on given data, by name: their options, and how each is built for a model.
 *
 * To add one: a file with its options and its function, a line here, and a line in src/tuning/examples/table.ts, which says what it reads.
 */
import { z } from "zod";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { distillation, distillationOptions } from "./distillation.ts";
import type { Objective } from "./objective.ts";
import { supervised, supervisedOptions } from "./supervised.ts";

/** The `objective` part of a run file. */
export const objectiveOptions = z.discriminatedUnion("type", [supervisedOptions, distillationOptions]);

/** An objective with all defaults filled in. */
export type ObjectiveChoice = z.output<typeof objectiveOptions>;

/** Builds an objective in the trainer that holds the model. `seed` draws what it adds to the model. */
export function buildObjective(choice: ObjectiveChoice, model: CausalLm, _seed: number): Objective {
  switch (choice.type) {
    case "supervised":
      return supervised();
    case "distillation":
      return distillation(choice, model);
  }
}
