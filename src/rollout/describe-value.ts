/** Describes any value as a short text for a message, however strange it is. */
import { inspect } from "node:util";

const MAX_CHARACTERS = 120;

export function describeValue(value: unknown): string {
  const text =
    typeof value === "string" ? value : inspect(value, { depth: 2, breakLength: Infinity, customInspect: false });
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}...` : text;
}
