/** The `data` part of a run file: a tagged choice of a source, which may hold other sources. */
import { z } from "zod";
import { DEFAULT_MAX_BYTES } from "./byte-budget.ts";
import { messageTemplate, rowFields } from "./row-schema.ts";
import { type RowSchemaName, rowSchemas } from "./row-schemas.ts";

const schemaNames = ["auto", ...(Object.keys(rowSchemas) as RowSchemaName[])] as const;

const passes = {
  epochs: z.int().min(1).optional().describe("Number of passes over the prompts. Default: unlimited."),
  shuffle: z.boolean().default(true).describe("Shuffle the prompts anew for each pass, by the seed of the run."),
};

const setOptions = {
  name: z
    .string()
    .min(1)
    .optional()
    .describe("Name of the data set, which its prompts' ids start with. Default: folder and file name."),
  schema: z
    .enum(schemaNames)
    .default("auto")
    .describe("Schema that rows are read by. auto: the one that fits the first row."),
  fields: rowFields.optional().describe("Columns to use instead of the schema's own."),
  template: messageTemplate.optional().describe("Texts with {placeholders} to use instead of the schema's own."),
  domain: z
    .union([z.string().min(1), z.record(z.string(), z.string().min(1))])
    .optional()
    .describe("Domain of all rows, or new names for the domains that the rows have."),
  split: z
    .strictObject({
      part: z.enum(["train", "validation"]).describe("Side of the split to take."),
      share: z.number().gt(0).lt(1).default(0.05).describe("Share of the rows held out for validation."),
    })
    .optional()
    .describe("Take one side of a split by content, which stays the same when the file grows or is reordered."),
  maxPromptChars: z.int().min(1).optional().describe("Leave out prompts that are longer than this many characters."),
  dropDuplicates: z.boolean().default(false).describe("Keep only the first of several rows with the same question."),
  skipIncomplete: z.boolean().default(false).describe("Skip rows without a question or a truth instead of failing."),
  ...passes,
};

/** Which files a source reads, whatever their rows are. */
export const dataFiles = {
  path: z
    .union([z.string().min(1), z.array(z.string().min(1)).min(1)])
    .describe("A file, a list of files, or a folder, whose files with the extension of the type are read."),
  maxBytes: z
    .int()
    .min(1)
    .default(DEFAULT_MAX_BYTES)
    .describe("Refuse files that take more than this many bytes once unpacked."),
};

const fileOptions = { ...dataFiles, ...setOptions };

/** Files with one object per line. */
const jsonlOptions = z.strictObject({ type: z.literal("jsonl"), ...fileOptions });
/** Files with one array of objects. */
const jsonOptions = z.strictObject({ type: z.literal("json"), ...fileOptions });
/** Parquet files. */
const parquetOptions = z.strictObject({ type: z.literal("parquet"), ...fileOptions });

/** Marks a data set; a choice that names a path and no type is one. */
export const datasetType = z.literal("dataset").optional().default("dataset");

/** Which data set, whatever its rows are. */
export const datasetFiles = {
  path: z
    .string()
    .min(1)
    .describe(
      "A file, a folder, or a data set on the Hub, as in openai/gsm8k or openai/gsm8k@main. What exists on disk wins.",
    ),
  subset: z
    .string()
    .min(1)
    .optional()
    .describe(
      "Data set to read where there are several, such as main of openai/gsm8k. Default: the one its README says.",
    ),
  maxBytes: dataFiles.maxBytes,
};

/** A data set by name, on disk or on the Hub. */
const datasetOptions = z.strictObject({
  type: datasetType,
  ...datasetFiles,
  ...setOptions,
  split: z
    .union([z.string().min(1), setOptions.split.unwrap()])
    .default("train")
    .describe("Split to take, such as train or test; or { part, share } for one side of a split of train by content."),
});

/** Rows written into the run file. */
const rowsOptions = z.strictObject({
  type: z.literal("rows"),
  ...setOptions,
  rows: z.array(z.record(z.string(), z.json())).min(1).describe("Rows written into the run file."),
});

/** Prompts that an environment makes. */
const envOptions = z.strictObject({
  type: z.literal("env"),
  env: z.string().min(1).describe("Domain of the environment that makes the prompts."),
  part: z
    .enum(["train", "validation"])
    .default("train")
    .describe("Part of the seeds to draw tasks from. The two parts do not overlap."),
  numPrompts: z.int().min(1).optional().describe("Number of tasks in one pass. Default: a new task for every prompt."),
  ...passes,
});

/** Several sources, mixed by ratio. */
const mixOptions = z.strictObject({
  type: z.literal("mix"),
  parts: z
    .array(
      z.strictObject({
        ratio: z.number().gt(0).describe("Weight of the source relative to the others."),
        get source() {
          return dataOptions;
        },
      }),
    )
    .min(1)
    .describe("Sources to mix, each as { ratio, source }."),
  whenPartEnds: z
    .enum(["stop", "drop"])
    .default("stop")
    .describe("What happens when a part runs out. stop: the data ends. drop: the other parts go on at their ratios."),
});

/** A source whose prompts are chosen by measured difficulty. */
const curriculumOptions = z.strictObject({
  type: z.literal("curriculum"),
  get source() {
    return dataOptions.describe("Source that the prompts are chosen from.");
  },
  success: z.number().default(1).describe("Total reward from which a trajectory counts as a success."),
  low: z.number().min(0).max(1).default(0.1).describe("Success rate below which prompts are mostly skipped."),
  high: z.number().min(0).max(1).default(0.9).describe("Success rate above which prompts are mostly skipped."),
  explore: z
    .number()
    .gt(0)
    .max(1)
    .default(0.1)
    .describe("Probability of drawing a prompt that would be skipped anyway."),
});

/** All choices of a source. */
export const dataOptions = z.discriminatedUnion("type", [
  jsonlOptions,
  jsonOptions,
  parquetOptions,
  datasetOptions,
  rowsOptions,
  envOptions,
  mixOptions,
  curriculumOptions,
]);

/** What a run file says about data, with defaults left out. */
export type DataChoice = z.input<typeof dataOptions>;

/** A data choice with all defaults filled in. */
export type DataOptions = z.output<typeof dataOptions>;
