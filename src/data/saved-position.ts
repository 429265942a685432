/** The reading of saved positions: of the same making as the source, or an error that says where they differ. */
import type { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import type { JsonValue } from "../flow/prompt.ts";

/**
 * Parses a position and compares what must not have changed. `source` names the source that restores, `making` holds the
 * parts of the position that say how it was made.
 */
export function readPosition<Schema extends z.ZodType<Readonly<Record<string, unknown>>>>(
  schema: Schema,
  position: JsonValue,
  source: string,
  making: Readonly<Record<string, JsonValue>>,
): z.output<Schema> {
  const saved = typeof position === "object" && position !== null ? (position as Record<string, JsonValue>) : {};
  for (const [key, value] of Object.entries(making)) {
    if (JSON.stringify(saved[key]) !== JSON.stringify(value)) throw mismatch(source, key, saved[key], value);
  }
  const parsed = schema.safeParse(position);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw mismatch(source, issue?.path.join(".") ?? "", position, issue?.message ?? "");
}

function mismatch(source: string, key: string, got: JsonValue | undefined, expected: JsonValue): RerollError {
  const short = (value: JsonValue | undefined) => JSON.stringify(value)?.slice(0, 80) ?? "nothing";
  return new RerollError(
    "STATE_MISMATCH",
    `${source} cannot go on from a position of another source: its ${key || "form"} is ${short(got)}, expected ${short(expected)}. ` +
      "Resume with the data and the seed of the saved run, or start a new run.",
    { source, key, got, expected },
  );
}
