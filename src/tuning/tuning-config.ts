/**
 * The run file of tuning: a model, an objective, data, and how long to train.
 *
 * A run file holds what differs from the defaults.
 */
import { z } from "zod";
import { runConfig } from "../run/run-config.ts";
import { validationGoal } from "../run/validation-goal.ts";
import { objectiveOptions } from "../training/objectives/table.ts";
import { trainingOptions } from "../training/trainer-options.ts";
import { tuningData } from "./tuning-data.ts";

const loopOptions = z.strictObject({
  epochs: z.int().positive().default(1).describe("Passes over the rows, each in a new order."),
  steps: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe("Number of updates in the run, in place of epochs. null: as many as the epochs take."),
  rowsPerStep: z.int().positive().default(64).describe("Rows of data in each update."),
});

const validationOptions = z.strictObject({
  data: tuningData.nullable().default(null).describe("Rows to validate on. null: a share of data, which is held out."),
  share: z
    .number()
    .gt(0)
    .lt(1)
    .default(0.05)
    .describe(
      "Share of the rows of data that is held out, chosen by their content. For validation without data of its own.",
    ),
  every: z.int().min(0).default(0).describe("Updates between validations. 0: only at the start and at the end."),
  metric: z
    .string()
    .default("loss")
    .describe("Metric by which the best checkpoint is chosen: the lowest or the highest, as the list of metrics says."),
  ...validationGoal,
});

/** The whole run file. */
export const tuningConfig = z.strictObject({
  kind: z.literal("tuning").describe("Marks a tuning run."),
  name: runConfig.shape.name,
  seed: runConfig.shape.seed,
  device: runConfig.shape.device,
  model: runConfig.shape.model,
  reference: z
    .string()
    .nullable()
    .default(null)
    .describe("Folder of the frozen model that the objective compares with. null: the model that the run starts from."),
  objective: objectiveOptions.describe("What the model learns from the rows: { type, ...options }."),
  data: tuningData.describe("Rows to learn from: { type, ...options }."),
  contextLength: z.int().positive().default(2048).describe("Maximum number of tokens in one sequence."),
  tooLong: z
    .enum(["drop", "cut"])
    .default("drop")
    .describe(
      "What becomes of rows with more tokens than contextLength: left out, or cut at their end. Both are counted.",
    ),
  loop: loopOptions.prefault({}),
  training: trainingOptions.omit({ minibatch: true }),
  validation: validationOptions
    .nullable()
    .default(null)
    .describe("Measure the model on rows that are never trained on. null: never."),
  checkpoint: runConfig.shape.checkpoint,
  tracking: runConfig.shape.tracking.unwrap().omit({ trajectoriesEvery: true, maxGroups: true }).prefault({}),
});

/** A tuning run with every key settled. */
export type TuningConfig = z.output<typeof tuningConfig>;

/** The content of a run file of tuning. */
type TuningFile = Omit<z.input<typeof tuningConfig>, "kind">;

/**
 * A run on given data, typed. Give it as the default export of a run file.
 *
 * @example export default defineTuning({ model: { path: "models/small" }, objective: { type: "supervised" }, data: { type: "jsonl", path: "chats.jsonl" }, training: { optimizer: { lr: 1e-5 } } });
 */
export function defineTuning(run: TuningFile): z.input<typeof tuningConfig> {
  return { kind: "tuning", ...run };
}
