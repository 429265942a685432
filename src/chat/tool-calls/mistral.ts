/**
 * Mistral: `[TOOL_CALLS]` and then a list of objects with name and arguments, or in later models a name, `[ARGS]` and the arguments, once
 * for each call.
 */
import { allCalls, callOfJson, type ParsedCall, parseJson, type ToolCallFormat } from "./tool-call-format.ts";

export const mistral: ToolCallFormat = {
  isIn: (template) => template.includes("[TOOL_CALLS]"),
  open: "[TOOL_CALLS]",
  close: null,
  marks: ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
  parse(content) {
    const list = parseJson(content.trim());
    if (Array.isArray(list)) return allCalls(list.map(callOfJson));
    return allCalls(content.split("[TOOL_CALLS]").map(namedCall));
  },
  frame: {
    begin: (name) => `{"name": ${JSON.stringify(name)}, "arguments": `,
    end: "}",
    between: ", ",
    around: ["[TOOL_CALLS][", "]"],
  },
};

function namedCall(text: string): ParsedCall | undefined {
  const found = /^\s*([\w.-]+)\s*(?:\[CALL_ID\][^[]*)?(?:\[ARGS\])?\s*(\{[\s\S]*\})\s*$/.exec(text);
  return found !== null && parseJson(found[2]!) !== undefined ? { name: found[1]!, arguments: found[2]! } : undefined;
}
