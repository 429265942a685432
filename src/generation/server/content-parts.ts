/** Content that comes in parts, as all three APIs send it. Text is joined; what a model of words cannot read is refused with a reason. */
import { z } from "zod";
import { requestError } from "./openai-errors.ts";
import { text } from "./request-fields.ts";

/** A part, as far as it can be told before it is known to be text. */
export const textPart = z.looseObject(
  { type: text, text: text.optional(), refusal: text.optional() },
  "an object with a type",
);

const TEXT_TYPES: readonly string[] = ["text", "input_text", "output_text"];

/** What parts of other kinds hold, by how their type begins. */
const OTHER_KINDS: readonly (readonly [start: string, kind: string])[] = [
  ["image", "an image"],
  ["input_image", "an image"],
  ["input_audio", "sound"],
  ["audio", "sound"],
  ["video", "a video"],
  ["file", "a file"],
  ["input_file", "a file"],
  ["document", "a file"],
];

/** @param name where the parts are, for messages */
export function joinTextParts(parts: readonly z.output<typeof textPart>[], name: string): string {
  return parts.map((part, index) => partText(part, `${name}[${index}]`)).join("");
}

function partText({ type, text: given, refusal }: z.output<typeof textPart>, name: string): string {
  if (TEXT_TYPES.includes(type) && given !== undefined) return given;
  if (type === "refusal" && refusal !== undefined) return refusal;
  const kind = OTHER_KINDS.find(([start]) => type.startsWith(start))?.[1];
  if (kind !== undefined) {
    throw requestError(
      name,
      `${name} is ${kind} (${JSON.stringify(type)}), and this model reads text only. Describe it in words, or leave it out.`,
    );
  }
  throw requestError(name, `${name} must have type "text" and a text: this server takes nothing else.`);
}
