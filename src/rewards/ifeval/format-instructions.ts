/** Instructions about the form of a reply: lists, sections, titles, JSON, placeholders, postscripts. */
import { z } from "zod";
import { defineInstruction, type Instruction } from "./define-instruction.ts";
import { escapePattern } from "./words.ts";

const count = z.number().int().nonnegative();
const none = z.object({});

export const formatInstructions = {
  "detectable_content:number_placeholders": defineInstruction(
    z.object({ num_placeholders: count }),
    (reply, { num_placeholders }) => countPlaceholders(reply) >= num_placeholders,
  ),
  "detectable_content:postscript": defineInstruction(
    z.object({ postscript_marker: z.string().trim().min(1) }),
    (reply, { postscript_marker }) => postscriptPattern(postscript_marker).test(reply.toLowerCase()),
  ),
  "detectable_format:number_bullet_lists": defineInstruction(
    z.object({ num_bullets: count }),
    (reply, { num_bullets }) =>
      countMatches(reply, /^[^\S\n]*\*[^*][^\n]*$/gm) + countMatches(reply, /^[^\S\n]*-[^\n]*$/gm) === num_bullets,
  ),
  "detectable_format:constrained_response": defineInstruction(none, (reply) =>
    constrainedResponses.some((response) => reply.includes(response)),
  ),
  "detectable_format:number_highlighted_sections": defineInstruction(
    z.object({ num_highlights: count }),
    (reply, { num_highlights }) => countHighlights(reply) >= num_highlights,
  ),
  "detectable_format:multiple_sections": defineInstruction(
    z.object({ section_spliter: z.string().trim().min(1), num_sections: count }),
    (reply, { section_spliter, num_sections }) =>
      reply.split(new RegExp(`\\s?${escapePattern(section_spliter)}\\s?\\d+\\s?`)).length - 1 >= num_sections,
  ),
  "detectable_format:json_format": defineInstruction(none, isJson),
  "detectable_format:title": defineInstruction(none, (reply) => reply.split("\n").some(hasTitle)),
} as const satisfies Record<string, Instruction>;

const constrainedResponses = ["My answer is yes.", "My answer is no.", "My answer is maybe."];

function countMatches(reply: string, pattern: RegExp): number {
  return reply.match(pattern)?.length ?? 0;
}

/** `[...]` within a line. By hand, because a pattern takes quadratic time on a reply that is all open brackets. */
function countPlaceholders(reply: string): number {
  return reply.split("\n").reduce((count, line) => {
    // Every "]" that follows a "[" since the last such pair closes one.
    let isOpen = false;
    let closed = 0;
    for (const sign of line) {
      if (sign === "]" && isOpen) closed++;
      if (sign === "[") isOpen = true;
      if (sign === "]") isOpen = false;
    }
    return count + closed;
  }, 0);
}

/** `<<...>>` around something else than white space and angle brackets. */
function hasTitle(line: string): boolean {
  const [open, close] = [line.indexOf("<<"), line.lastIndexOf(">>")];
  return open !== -1 && close > open + 2 && /[^\s<>]/.test(line.slice(open, close));
}

function postscriptPattern(marker: string): RegExp {
  if (marker === "P.P.S") return /p\.\s?p\.\s?s/;
  if (marker === "P.S.") return /p\.\s?s\./;
  return new RegExp(escapePattern(marker.toLowerCase()));
}

/** `*so*` counts once. `**so**` counts once as well: IFEval finds it by the pattern for double stars only. */
function countHighlights(reply: string): number {
  const single = (reply.match(/\*[^\n*]*\*/g) ?? []).filter((found) => found.slice(1, -1).trim() !== "");
  const double = (reply.match(/\*\*[^\n*]*\*\*/g) ?? []).filter((found) => found.slice(2, -2).trim() !== "");
  return single.length + double.length;
}

/** JSON as a whole, with or without a Markdown fence. Unlike Python's reader it refuses NaN and Infinity, as JSON does. */
function isJson(reply: string): boolean {
  const body = reply
    .trim()
    .replace(/^```(?:json|Json|JSON)?/, "")
    .replace(/```$/, "")
    .trim();
  try {
    JSON.parse(body);
    return true;
  } catch {
    return false;
  }
}
