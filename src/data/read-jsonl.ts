/**
 * Rows of a JSONL file: one object per line; empty lines are skipped.
 *
 * Lines end at `\n` only. `node:readline` also breaks at U+2028 and U+2029, which JSON allows inside of strings.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { ByteBudget } from "./byte-budget.ts";
import { type DataRow, isDataRow } from "./data-row.ts";
import { readText } from "./read-text.ts";

/** Yields the rows of a file in order. */
export async function* readJsonl(file: string, budget: ByteBudget): AsyncGenerator<DataRow> {
  let number = 1;
  let rest = "";
  for await (const text of readText(file, budget)) {
    const lines = text.split("\n");
    lines[0] = rest + lines[0];
    rest = lines.pop()!;
    for (const line of lines) {
      if (!isBlank(line)) yield parseLine(line, file, number, "");
      number++;
    }
  }
  const torn =
    " The file ends in this line, without a line end: it may have been cut off. Copy it again or delete the line.";
  if (!isBlank(rest)) yield parseLine(rest, file, number, torn);
}

function parseLine(line: string, file: string, number: number, hint: string): DataRow {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    const message = `${file} line ${number} is not JSON: got ${excerpt(line)}. Each line must hold one object.${hint}`;
    throw new RerollError("DATA_INVALID", message, { file, line: number }, { cause });
  }
  if (isDataRow(value)) return value;
  throw new RerollError(
    "DATA_INVALID",
    `${file} line ${number} is not an object: got ${excerpt(line)}. Each line must hold one object with named fields.`,
    { file, line: number },
  );
}

function isBlank(line: string): boolean {
  return line.trim() === "";
}

function excerpt(line: string): string {
  return line.length > 80 ? `${line.slice(0, 60)}...${line.slice(-17)}` : line;
}
