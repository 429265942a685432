/** Llama 3.2 and 4, OLMo 3: a reply that is a Python list of calls, `[f(x=1, y="a"), g()]`. */
import { llamaJson } from "./llama-json.ts";
import { PythonReader } from "./python-reader.ts";
import type { ToolCallFormat } from "./tool-call-format.ts";

export const pythonic: ToolCallFormat = {
  isIn: (template) => /\[func_name1?\(|\[function_name\(|func_call\(arg/.test(template),
  open: "[",
  close: null,
  isAtStart: true,
  marks: [],
  parse: (content) => new PythonReader(`[${content}`.replace(/^\[<\|python_start\|>|<\|python_end\|>$/g, "")).calls(),
  frame: { ...llamaJson.frame, around: ["[", "]"], between: ", " },
};
