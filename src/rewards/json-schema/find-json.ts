/** The JSON of a reply: the whole of it, or its last fenced block. */
import type { JsonValue } from "../../flow/prompt.ts";

/** Undefined where there is none. A value in a fence may have text around it; one without may not. */
export function findJson(text: string): JsonValue | undefined {
  const fences = [...text.matchAll(/```(?:json|JSON)?[ \t]*\n([\s\S]*?)\n?```/g)];
  const whole = parse(text.trim());
  return whole === undefined ? parse(fences.at(-1)?.[1] ?? "") : whole;
}

function parse(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
