/**
 * Rows of a JSON file that holds one array of objects.
 *
 * The text is cut into elements as it streams in, and each is parsed alone: no string holds the whole file, the event loop
 * turns between reads, and an error names the line where its element begins.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { ByteBudget } from "./byte-budget.ts";
import { type DataRow, isDataRow } from "./data-row.ts";
import { readText } from "./read-text.ts";

/** Yields the elements of the array in order. */
export async function* readJsonArray(file: string, budget: ByteBudget): AsyncGenerator<DataRow> {
  const cutter = createElementCutter(file);
  for await (const text of readText(file, budget)) yield* cutter.push(text);
  cutter.end();
}

type Place = "before" | "first" | "element" | "after-element" | "next" | "after";

/** Follows brackets and strings only; whether an element is JSON is left to the parser. */
function createElementCutter(file: string) {
  let place: Place = "before";
  let depth = 0;
  let isInString = false;
  let isEscaped = false;
  let pending = "";
  let line = 1;
  let startLine = 1;

  function* push(text: string): Generator<DataRow> {
    let start = 0;
    for (let i = 0; i < text.length; i++) {
      const char = text[i]!;
      if (char === "\n") line++;
      if (place === "element") {
        if (!endsElement(char)) continue;
        yield parseElement(pending + text.slice(start, i + 1), file, startLine);
        pending = "";
        place = "after-element";
      } else if (char.trim() !== "") {
        place = placeAfter(char);
        if (place === "element") {
          start = i;
          startLine = line;
          depth = 1;
        }
      }
    }
    if (place === "element") pending += text.slice(start);
  }

  function endsElement(char: string): boolean {
    if (isEscaped) isEscaped = false;
    else if (isInString) {
      if (char === "\\") isEscaped = true;
      else if (char === '"') isInString = false;
    } else if (char === '"') isInString = true;
    else if (char === "{" || char === "[") depth++;
    else if (char === "}" || char === "]") depth--;
    return depth === 0;
  }

  function placeAfter(char: string): Place {
    if (place === "before" && char === "[") return "first";
    if ((place === "first" || place === "next") && char === "{") return "element";
    if (place === "after-element" && char === ",") return "next";
    if ((place === "first" || place === "after-element") && char === "]") return "after";
    throw new RerollError(
      "DATA_INVALID",
      `${file} line ${line} holds ${JSON.stringify(char)} where ${expected[place]}`,
      {
        file,
        line,
      },
    );
  }

  function end(): void {
    if (place === "after") return;
    throw new RerollError(
      "DATA_INVALID",
      `${file} ends at line ${line} before its array does: it may have been cut off. Copy it again.`,
      { file, line },
    );
  }

  return { push, end };
}

const expected: Readonly<Record<Place, string>> = {
  before: "an array of objects must begin. If each line is an object of its own, use type jsonl.",
  first: "an object must begin.",
  next: "an object must begin.",
  element: "the object must go on.",
  "after-element": 'a comma or the end of the array must follow: "," or "]".',
  after: "the file must end, since its array has ended.",
};

function parseElement(text: string, file: string, line: number): DataRow {
  try {
    const value: unknown = JSON.parse(text);
    if (isDataRow(value)) return value;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `${file} has an object that is not JSON, from line ${line} on: ${reason}.`;
    throw new RerollError("DATA_INVALID", message, { file, line }, { cause });
  }
  throw new RerollError("INTERNAL", "internal: text in braces is an object", { file, line });
}
