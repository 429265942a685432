/** When validation ends a run of any kind: the keys beside `metric`, which each kind has a default of its own for. */
import { z } from "zod";

/** To spread into the validation options of a kind of run. */
export const validationGoal = {
  stopAt: z.number().nullable().default(null).describe("End the run once the metric has reached this value."),
  patience: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe("End the run after this many validations in a row without a new best."),
};
