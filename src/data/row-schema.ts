/**
 * What a row schema is: which columns hold what, and how messages are made of them.
 *
 * A schema is data, so that a run file can change parts of it: `fields` names other columns, `template` other words.
 */
import { z } from "zod";
import type { DataRow } from "./data-row.ts";

const column = z.string().min(1);

/** Columns by what they hold. A path with dots reaches into a column: `reward_model.ground_truth`. */
export const rowFields = z.strictObject({
  question: column
    .optional()
    .describe("Column with the question: a text that the template turns into messages, or a list of messages."),
  messages: column
    .optional()
    .describe("Column with a list of messages, or its JSON text. It takes precedence over question."),
  truth: z
    .union([column, z.array(column).min(1)])
    .optional()
    .describe("Column that rewards compare with. Several columns become an object; only the first is required."),
  id: column.optional().describe("Column with a stable id for the row. Without it, rows are numbered."),
  domain: column.optional().describe("Column with the domain, which chooses the reward."),
  tools: column.optional().describe("Column with tools in OpenAI's format, as a list or its JSON text."),
});

/** Columns by what they hold; all may be left out. */
export type RowFields = z.output<typeof rowFields>;

/** How a row becomes messages. `{name}` stands for a column, `{question}` also for the one that `fields` names. */
export const messageTemplate = z.strictObject({
  system: z.string().optional().describe("System message. It replaces that of a row that has messages."),
  user: z
    .string()
    .optional()
    .describe("User message, {question} by default. It replaces the messages of a row that has them."),
});

/** Texts with placeholders; both may be left out. */
export type MessageTemplate = z.output<typeof messageTemplate>;

/** How the rows of one kind of data set are read. */
export interface RowSchema {
  /** What rows look like, for people. */
  readonly columns: string;
  /** Whether a row can be read this way. */
  readonly fits: (row: DataRow) => boolean;
  /** Columns that are worked out from others, such as the number after `####`. Chance comes from the seed of the row. */
  readonly derive?: (row: DataRow, seed: number) => DataRow;
  /** Where things stand, judged by the first row. */
  readonly fields: (row: DataRow) => RowFields;
  readonly template: MessageTemplate;
  /** The domain of rows that name none. */
  readonly domain: string;
}
