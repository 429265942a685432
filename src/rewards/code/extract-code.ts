/**
 * Finds the code in a reply.
 *
 * The last fenced block that names the language; without one, the last block that names none; without any block, the whole
 * reply. Reasoning that ends in </think> is not looked at. Indentation is kept: a reply may be the body of a function. A block
 * that the end of the reply cut off counts.
 */

import { fencedBlocks } from "../fenced-blocks.ts";

/** Languages that rewards can run. */
export const languages = ["python", "javascript"] as const;

export type Language = (typeof languages)[number];

const fenceNames: Readonly<Record<Language, readonly string[]>> = {
  python: ["python", "python3", "py"],
  javascript: ["javascript", "js", "node", "mjs", "cjs"],
};

/** The code, or null when the reply is empty or holds blocks of other languages alone. */
export function extractCode(reply: string, language: Language): string | null {
  const answer = reply.split("</think>").at(-1) ?? "";
  const blocks = fencedBlocks(answer);
  const found =
    blocks.findLast(({ name }) => fenceNames[language].includes(name)) ?? blocks.findLast(({ name }) => name === "");
  const code = (blocks.length === 0 ? answer : (found?.code ?? "")).replace(/^(?:[ \t]*\r?\n)+/, "").trimEnd();
  return code === "" ? null : code;
}
