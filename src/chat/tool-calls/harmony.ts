/**
 * gpt-oss: a message to a tool in the commentary channel, `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}<|call|>`.
 * Its other channels are read by `thinking.ts`: what is analysis, and what is said.
 */
import { allCalls, parseJson, type ToolCallFormat } from "./tool-call-format.ts";

export const harmony: ToolCallFormat = {
  isIn: (template) => template.includes("<|channel|>commentary"),
  open: "<|channel|>commentary to=functions.",
  close: "<|call|>",
  marks: ["<|channel|>", "<|message|>", "<|constrain|>", "<|call|>", "<|end|>", "<|start|>", "<|return|>"],
  parse(content) {
    const found = /^([\w.-]+)\s*(?:(?:<\|constrain\|>)?\s*json)?\s*<\|message\|>([\s\S]*)$/.exec(content);
    const given = found?.[2]?.replace(/<\|(end|call|return)\|>\s*$/, "").trim() || "{}";
    return allCalls([
      found !== null && parseJson(given) !== undefined ? { name: found[1]!, arguments: given } : undefined,
    ]);
  },
  frame: {
    begin: (name) => `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>`,
    end: "<|call|>",
    between: null,
  },
};
