/** The JSON of a reply: the whole of it, or its last fenced block. */
import { jsonDepth, MAX_JSON_DEPTH } from "../../errors/json-depth.ts";
import type { JsonValue } from "../../flow/prompt.ts";
import { fencedBlocks } from "../fenced-blocks.ts";

/**
 * Undefined where there is none, or where it nests deeper than anything that is meant. A value in a fence may have text around it;
 * one without may not.
 */
export function findJson(text: string): JsonValue | undefined {
  const whole = parse(text.trim());
  if (whole !== undefined) return whole;
  return parse(fencedBlocks(text).findLast(({ name }) => name === "json" || name === "")?.code ?? "");
}

function parse(text: string): JsonValue | undefined {
  if (jsonDepth(text) > MAX_JSON_DEPTH) return undefined;
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
