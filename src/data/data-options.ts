/** The `data` part of a run file: a tagged choice of a source, which may hold other sources. */
import { z } from "zod";
import { DEFAULT_MAX_BYTES } from "./byte-budget.ts";
import { messageTemplate, rowFields } from "./row-schema.ts";
import { type RowSchemaName, rowSchemas } from "./row-schemas.ts";

const schemaNames = ["auto", ...(Object.keys(rowSchemas) as RowSchemaName[])] as const;

const passes = {
  epochs: z.int().min(1).optional().describe("Passes over the prompts. Default: no end."),
  shuffle: z.boolean().default(true).describe("Put each pass in a new order, which the seed of the run decides."),
};

const setOptions = {
  name: z
    .string()
    .min(1)
    .optional()
    .describe("Name of the data set, which starts the ids of its prompts. Default: folder and file."),
  schema: z.enum(schemaNames).default("auto").describe("How rows are read. auto: the schema that fits the first row."),
  fields: rowFields.optional().describe("Columns to use in place of those of the schema."),
  template: messageTemplate.optional().describe("Texts with {placeholders} to use in place of those of the schema."),
  domain: z
    .union([z.string().min(1), z.record(z.string(), z.string().min(1))])
    .optional()
    .describe("Domain of all rows, or new names for the domains that rows have."),
  split: z
    .strictObject({
      part: z.enum(["train", "validation"]),
      share: z.number().gt(0).lt(1).default(0.05).describe("Share of rows that are for validation."),
    })
    .optional()
    .describe("Take one side of a split by content, which stays the same when the file grows or is reordered."),
  maxPromptChars: z.int().min(1).optional().describe("Leave out prompts with more characters than this."),
  dropDuplicates: z.boolean().default(false).describe("Keep only the first of several rows that ask the same."),
  skipIncomplete: z
    .boolean()
    .default(false)
    .describe("Leave out rows without a question or a truth, which are an error otherwise."),
  ...passes,
};

const fileOptions = {
  path: z
    .union([z.string().min(1), z.array(z.string().min(1)).min(1)])
    .describe("A file, a list of files, or a folder; of a folder, the files whose ending fits the type."),
  maxBytes: z
    .int()
    .min(1)
    .default(DEFAULT_MAX_BYTES)
    .describe("Refuse files that take more bytes than this, unpacked."),
  ...setOptions,
};

/** Files with one object per line. */
const jsonlOptions = z.strictObject({ type: z.literal("jsonl"), ...fileOptions });
/** Files with one array of objects. */
const jsonOptions = z.strictObject({ type: z.literal("json"), ...fileOptions });
/** Parquet files. */
const parquetOptions = z.strictObject({ type: z.literal("parquet"), ...fileOptions });

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
    .describe("Which part of the seeds to draw tasks from; the two parts share none."),
  numPrompts: z.int().min(1).optional().describe("Number of tasks in one pass. Default: a new task for every prompt."),
  ...passes,
});

/** Several sources by ratios. */
const mixOptions = z.strictObject({
  type: z.literal("mix"),
  parts: z
    .array(
      z.strictObject({
        ratio: z.number().gt(0),
        get source() {
          return dataOptions;
        },
      }),
    )
    .min(1),
  whenPartEnds: z
    .enum(["stop", "drop"])
    .default("stop")
    .describe("What happens when one part runs out. stop: the data ends. drop: the other parts go on by their ratios."),
});

/** A source whose prompts are chosen by measured difficulty. */
const curriculumOptions = z.strictObject({
  type: z.literal("curriculum"),
  get source() {
    return dataOptions;
  },
  success: z.number().default(1).describe("Total reward from which a trajectory counts as a success."),
  low: z.number().min(0).max(1).default(0.1).describe("Success rate below which prompts are mostly skipped."),
  high: z.number().min(0).max(1).default(0.9).describe("Success rate above which prompts are mostly skipped."),
  explore: z.number().gt(0).max(1).default(0.1).describe("Probability of giving such a prompt all the same."),
});

/** All choices of a source. */
export const dataOptions = z.discriminatedUnion("type", [
  jsonlOptions,
  jsonOptions,
  parquetOptions,
  rowsOptions,
  envOptions,
  mixOptions,
  curriculumOptions,
]);

/** What a run file says about data, with defaults left out. */
export type DataChoice = z.input<typeof dataOptions>;

/** A data choice with all defaults filled in. */
export type DataOptions = z.output<typeof dataOptions>;
