/**
 * From rows to the prompts of a set: schema, filters, split; with a report of what was chosen and what was left out.
 *
 * All prompts are kept in memory (see byte-budget.ts).
 */
import { createHash } from "node:crypto";
import { basename, dirname, resolve } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import type { Prompt } from "../flow/prompt.ts";
import { chooseSchema, type SchemaChoice, type SettledSchema } from "./choose-schema.ts";
import type { DataRow, PlacedRow } from "./data-row.ts";
import { type DataFormatName, listDataFiles, readRows } from "./read-rows.ts";
import { splitByHash } from "./split-by-hash.ts";
import { ownId, type RowPrompt, rowError, toPrompt } from "./to-prompt.ts";

/** Options of a set of prompts. */
interface LoadOptions extends SchemaChoice {
  /** Stands before the row in ids. Default: the last folder and the file of the first path, as in `gsm8k/train`. */
  readonly name?: string | undefined;
  /** Which side of a split by content to take, and the share of rows that are for validation. Default: all rows. */
  readonly split?: { readonly part: "train" | "validation"; readonly share: number } | undefined;
  /** Leaves out prompts with more characters than this in their messages. */
  readonly maxPromptChars?: number | undefined;
  /** Keeps only the first of the rows that ask the same. */
  readonly dropsDuplicates?: boolean | undefined;
  /** Leaves out rows without a question or a truth, which are an error otherwise. */
  readonly skipsIncomplete?: boolean | undefined;
  /** More than this, unpacked, is refused. Default 1 GiB. */
  readonly maxBytes?: number | undefined;
}

/** The prompts of a set, in the order of the rows, and what became of the other rows. */
export interface PromptSet {
  readonly name: string;
  readonly prompts: readonly Prompt[];
  /** One line for people: the schema, and how many rows went where. */
  readonly statement: string;
  readonly numRows: number;
  readonly numIncomplete: number;
  readonly numTooLong: number;
  readonly numDuplicates: number;
}

/** Loads a file, a list of files, or a folder of files. */
export async function loadPrompts(
  format: DataFormatName,
  path: string | readonly string[],
  options: LoadOptions = {},
): Promise<PromptSet> {
  const files = await listDataFiles(format, path);
  const name = options.name ?? defaultName([path].flat()[0] ?? "");
  // With several files the file is part of the id, so that a new file leaves the ids of the others as they are.
  const prefixOf = (file: string) => (files.length === 1 ? name : `${name}/${stem(file)}`);
  return collectPrompts(readRows(format, files, options.maxBytes), name, prefixOf, options);
}

/** Makes prompts of rows that are in memory already. */
export function promptsFromRows(rows: readonly DataRow[], name: string, options: LoadOptions = {}): Promise<PromptSet> {
  const placed = rows.map((row, index) => ({ row, file: name, index }));
  return collectPrompts(placed, name, () => name, options);
}

async function collectPrompts(
  rows: AsyncIterable<PlacedRow> | Iterable<PlacedRow>,
  name: string,
  prefixOf: (file: string) => string,
  options: LoadOptions,
): Promise<PromptSet> {
  const ids = new Set<string>();
  const all: RowPrompt[] = [];
  let schema: SettledSchema | undefined;
  let numIncomplete = 0;
  for await (const placed of rows) {
    schema ??= chooseSchema(placed.row, options, placed.file);
    const made = toPrompt(placed, newId(placed, prefixOf(placed.file), schema, ids), schema);
    if ("prompt" in made) all.push(made);
    else if (options.skipsIncomplete) numIncomplete++;
    else throw rowError(placed, `has nothing in ${made.missing}. Mend the row, set fields, or set skipIncomplete`);
  }
  const { maxPromptChars = Number.POSITIVE_INFINITY, dropsDuplicates = false, split } = options;
  const short = all.filter(({ prompt }) => promptLength(prompt) <= maxPromptChars);
  const unique = dropsDuplicates ? withoutDuplicates(short) : short;
  const kept = split ? splitByHash(unique, split.share, ({ content }) => content)[split.part] : unique;
  const counts = {
    numRows: all.length + numIncomplete,
    numIncomplete,
    numTooLong: all.length - short.length,
    numDuplicates: short.length - unique.length,
  };
  const statement = describeSet(name, kept.length, schema, counts, split);
  if (kept.length > 0) return { name, prompts: kept.map(({ prompt }) => prompt), statement, ...counts };
  throw new RerollError(
    "DATA_EMPTY",
    `${statement}. Nothing is left to train on: change the filters or the split.`,
    counts,
  );
}

/** The row's own id where it has one that is new, else its index; a repeated id gets the index behind it. */
function newId({ row, index }: PlacedRow, prefix: string, schema: SettledSchema, ids: Set<string>): string {
  const own = ownId(row, schema);
  const plain = `${prefix}:${own ?? index}`;
  const id = ids.has(plain) ? `${plain}#${index}` : plain;
  ids.add(id);
  return id;
}

function promptLength({ messages }: Prompt): number {
  const lengths = messages.map(({ content }) =>
    typeof content === "string" ? content.length : content ? JSON.stringify(content).length : 0,
  );
  return lengths.reduce((sum, length) => sum + length, 0);
}

function withoutDuplicates(rows: readonly RowPrompt[]): RowPrompt[] {
  const seen = new Set<string>();
  return rows.filter(({ content }) => {
    const digest = createHash("sha256").update(content).digest("base64");
    return seen.size < seen.add(digest).size;
  });
}

function describeSet(
  name: string,
  numKept: number,
  schema: SettledSchema | undefined,
  counts: Pick<PromptSet, "numRows" | "numIncomplete" | "numTooLong" | "numDuplicates">,
  split: LoadOptions["split"],
): string {
  const { numRows, numIncomplete, numTooLong, numDuplicates } = counts;
  const notes = [
    ...(schema ? [schema.statement] : []),
    ...(numIncomplete > 0 ? [`${numIncomplete} incomplete`] : []),
    ...(numTooLong > 0 ? [`${numTooLong} too long`] : []),
    ...(numDuplicates > 0 ? [`${numDuplicates} duplicates`] : []),
    ...(split ? [`the ${split.part} side of a split with ${split.share} for validation`] : []),
  ];
  return [`${name}: ${numKept} of ${numRows} rows`, ...notes].join("; ");
}

function defaultName(path: string): string {
  return [basename(dirname(resolve(path))), stem(path)].filter((part) => part !== "").join("/");
}

function stem(path: string): string {
  return basename(path).replace(/(?:\.(?:jsonl|ndjson|json|parquet))?(?:\.gz)?$/, "");
}
