/** Hermes and Qwen 2.5 and 3: `<tool_call>{"name": "f", "arguments": {...}}</tool_call>`. */
import { allCalls, callOfJson, parseJson, type ToolCallFormat } from "./tool-call-format.ts";

export const hermes: ToolCallFormat = {
  isIn: (template) => template.includes("<tool_call>"),
  open: "<tool_call>",
  close: "</tool_call>",
  marks: ["<tool_call>", "</tool_call>"],
  parse: (content) => allCalls([callOfJson(parseJson(content))]),
  frame: {
    begin: (name) => `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": `,
    end: "}\n</tool_call>",
    between: "\n",
  },
};
