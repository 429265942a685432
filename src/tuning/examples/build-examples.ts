/**
 * All examples of a run, from its rows: read, measured against the context, counted.
 *
 * Whatever is wrong with a row is found here, before a run folder is made or a model loaded.
 */
import { createHash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { PlacedRow } from "../../data/data-row.ts";
import { rowError } from "../../data/to-prompt.ts";
import { didYouMean } from "../../errors/nearest-name.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { TuningExample, TuningSequence } from "../../flow/tuning-example.ts";
import type { ExampleReader, ReaderParts } from "./example-reader.ts";

/** Examples, and what became of the other rows. */
export interface ExampleSet {
  readonly examples: readonly TuningExample[];
  readonly numTokens: number;
  readonly numLossTokens: number;
  /** Tokens of the longest example, all its sequences together. */
  readonly longest: number;
  /** Tells these examples from others, to the token. */
  readonly digest: string;
  /** Sentences about rows that were left out or cut. */
  readonly statements: readonly string[];
}

interface ExampleOptions extends Omit<ReaderParts, "fields"> {
  readonly reader: ExampleReader;
  readonly fields: Readonly<Record<string, string>>;
  readonly skipInvalid: boolean;
  readonly contextLength: number;
  readonly tooLong: "drop" | "cut";
  /** Where the data stands in the run file, for messages. */
  readonly key: string;
}

/** The event loop gets a turn after this many rows. */
const ROWS_PER_TURN = 64;
const NAMED_ROWS = 3;

export async function buildExamples(rows: readonly PlacedRow[], options: ExampleOptions): Promise<ExampleSet> {
  const { reader, fields, key, tooLong, contextLength } = options;
  const unknown = Object.keys(fields).find((name) => !reader.fields.includes(name));
  if (unknown !== undefined) {
    throw new RerollError(
      "INVALID_OPTION",
      `${key}.fields.${unknown} is not something that this objective reads.${didYouMean(unknown, reader.fields)} It reads: ${reader.fields.join(", ")}.`,
    );
  }
  const examples: TuningExample[] = [];
  const invalid: string[] = [];
  const cut: string[] = [];
  const dropped: string[] = [];
  for (const [i, placed] of rows.entries()) {
    if (i % ROWS_PER_TURN === 0) await nextTurn();
    const example = await readRow(placed, options, invalid);
    if (example === null) continue;
    const fitted = shortened(example, contextLength, tooLong);
    if (fitted === null) dropped.push(nameOf(placed));
    else examples.push(fitted);
    if (fitted !== null && fitted !== example) cut.push(nameOf(placed));
  }
  const statements = [
    ...told(invalid, "cannot be read and is skipped", "cannot be read and are skipped"),
    ...told(
      dropped,
      `is left out: longer than contextLength ${contextLength}`,
      `are left out: longer than contextLength ${contextLength}`,
    ),
    ...told(cut, `is cut to contextLength ${contextLength}`, `are cut to contextLength ${contextLength}`),
  ].map((text) => `${key}: ${text}`);
  if (examples.length === 0) {
    throw new RerollError("DATA_EMPTY", `${key} has nothing to learn from. ${statements.join(" ")}`.trim());
  }
  return { examples, ...countAll(examples), digest: digestOf(examples), statements };
}

async function readRow(placed: PlacedRow, options: ExampleOptions, invalid: string[]): Promise<TuningExample | null> {
  const { reader, format, fields, skipInvalid } = options;
  try {
    return await reader.read(placed, { format, fields });
  } catch (cause) {
    if (!(cause instanceof RerollError)) throw cause;
    if (skipInvalid && PROBLEMS_OF_ROWS.includes(cause.code)) {
      invalid.push(nameOf(placed));
      return null;
    }
    throw cause.code === "CHAT_REFUSED"
      ? rowError(placed, `cannot be rendered: ${cause.message.replace(/\.$/, "")}`)
      : cause;
  }
}

const PROBLEMS_OF_ROWS: readonly string[] = ["DATA_INVALID", "CHAT_REFUSED", "TOOL_ARGUMENTS_INVALID"];

/** The example with no sequence longer than the context, or null where that cannot be. */
function shortened(example: TuningExample, contextLength: number, tooLong: "drop" | "cut"): TuningExample | null {
  if (example.sequences.every(({ tokenIds }) => tokenIds.length <= contextLength)) return example;
  if (tooLong === "drop") return null;
  const sequences = example.sequences.map(
    ({ tokenIds, lossMask }): TuningSequence => ({
      tokenIds: tokenIds.slice(0, contextLength),
      lossMask: lossMask.slice(0, contextLength),
    }),
  );
  return sequences.every(({ lossMask }) => lossMask.includes(1)) ? { ...example, sequences } : null;
}

function nameOf({ file, index }: PlacedRow): string {
  return `${file} row ${index + 1}`;
}

/** One sentence that counts rows and names the first of them. */
function told(names: readonly string[], one: string, many: string): string[] {
  if (names.length === 0) return [];
  const named = names.slice(0, NAMED_ROWS).join(", ");
  const more = names.length > NAMED_ROWS ? ", ..." : "";
  return [`${names.length === 1 ? `1 row ${one}` : `${names.length} rows ${many}`} (${named}${more}).`];
}

function countAll(examples: readonly TuningExample[]) {
  const lengths = examples.map(({ sequences }) => sequences.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0));
  const masks = examples.flatMap(({ sequences }) => sequences.map(({ lossMask }) => lossMask));
  return {
    numTokens: lengths.reduce((sum, length) => sum + length, 0),
    longest: lengths.reduce((most, length) => Math.max(most, length), 0),
    numLossTokens: masks.reduce((sum, mask) => sum + mask.reduce((total, one) => total + one, 0), 0),
  };
}

function digestOf(examples: readonly TuningExample[]): string {
  const hash = createHash("sha256");
  for (const { sequences, numbers } of examples) {
    hash.update(JSON.stringify([sequences.map(({ tokenIds }) => tokenIds.length), numbers ?? {}]));
    for (const { tokenIds, lossMask } of sequences) hash.update(tokenIds).update(lossMask);
  }
  return hash.digest("hex");
}
