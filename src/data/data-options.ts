/** The `data` part of a run file: a tagged choice of a source, which may hold other sources. */
import { z } from "zod";
import { DEFAULT_MAX_BYTES } from "./byte-budget.ts";
import { messageTemplate, rowFields } from "./row-schema.ts";
import { type RowSchemaName, rowSchemas } from "./row-schemas.ts";

const schemaNames = ["auto", ...(Object.keys(rowSchemas) as RowSchemaName[])] as const;

const passes = {
  epochs: z.int().min(1).optional().describe("Passes over the prompts. Default: without end."),
  shuffle: z.boolean().default(true).describe("Puts each pass in a new order, which the seed of the run decides."),
};

const setOptions = {
  name: z.string().min(1).optional().describe("Stands before the row in the ids of prompts. Default: folder and file."),
  schema: z.enum(schemaNames).default("auto").describe("How rows are read. auto: what fits the first row."),
  fields: rowFields.optional().describe("Columns that differ from those of the schema."),
  template: messageTemplate.optional().describe("Texts with {placeholders} that differ from those of the schema."),
  domain: z
    .union([z.string().min(1), z.record(z.string(), z.string().min(1))])
    .optional()
    .describe("The domain of all rows, or new names for those that rows have."),
  split: z
    .strictObject({
      part: z.enum(["train", "validation"]),
      share: z.number().gt(0).lt(1).default(0.05).describe("The share of rows that are for validation."),
    })
    .optional()
    .describe(
      "Takes one side of a split by content, which stays the same when the file grows or is put in another order.",
    ),
  maxPromptChars: z.int().min(1).optional().describe("Leaves out prompts with more characters."),
  dropDuplicates: z.boolean().default(false).describe("Keeps the first of the rows that ask the same."),
  skipIncomplete: z
    .boolean()
    .default(false)
    .describe("Leaves out rows without a question or a truth, which are an error otherwise."),
  ...passes,
};

const fileOptions = {
  path: z
    .union([z.string().min(1), z.array(z.string().min(1)).min(1)])
    .describe("A file, a list of files, or a folder of files with the ending of the type."),
  maxBytes: z.int().min(1).default(DEFAULT_MAX_BYTES).describe("More than this, unpacked, is refused."),
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
  env: z.string().min(1).describe("An environment of the run that makes its own prompts."),
  part: z.enum(["train", "validation"]).default("train").describe("Which half of the seeds; the halves never meet."),
  numPrompts: z.int().min(1).optional().describe("Tasks in one pass. Default: a new one for every prompt."),
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
  whenPartEnds: z.enum(["stop", "drop"]).default("stop").describe("drop: the other parts go on by their ratios."),
});

/** A source whose prompts are chosen by measured difficulty. */
const curriculumOptions = z.strictObject({
  type: z.literal("curriculum"),
  get source() {
    return dataOptions;
  },
  low: z.number().min(0).max(1).default(0.1).describe("Prompts that succeed less often are mostly skipped."),
  high: z.number().min(0).max(1).default(0.9).describe("Prompts that succeed more often are mostly skipped."),
  explore: z.number().gt(0).max(1).default(0.1).describe("The chance that such a prompt is given all the same."),
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

/** The same with all defaults filled in. */
export type DataOptions = z.output<typeof dataOptions>;
