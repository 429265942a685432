/** Llama 3.1 to 3.3: a reply that is `{"name": "f", "parameters": {...}}`, several of them apart by a semicolon. */
import { allCalls, callOfJson, parseJson, type ToolCallFormat } from "./tool-call-format.ts";

export const llamaJson: ToolCallFormat = {
  isIn: (template) => template.includes("<|python_tag|>") || /"parameters":\s/.test(template.replaceAll("\\", "")),
  open: "{",
  close: null,
  isAtStart: true,
  marks: [],
  parse: (content) =>
    allCalls(splitObjects(`{${content.replace("<|python_tag|>", "")}`).map((text) => callOfJson(parseJson(text)))),
  frame: {
    begin: (name) => `{"name": ${JSON.stringify(name)}, "parameters": `,
    end: "}",
    between: "; ",
  },
};

/** The objects of a text with semicolons between them. A semicolon within a text of JSON does not count. */
function splitObjects(text: string): string[] {
  const found: string[] = [];
  let [start, depth, isQuoted] = [0, 0, false];
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (isQuoted && character === "\\") i++;
    else if (character === '"') isQuoted = !isQuoted;
    else if (!isQuoted && character === "{") depth++;
    else if (!isQuoted && character === "}") depth--;
    else if (!isQuoted && depth === 0 && character === ";") {
      found.push(text.slice(start, i));
      start = i + 1;
    }
  }
  return [...found, text.slice(start)].filter((one) => one.trim() !== "");
}
