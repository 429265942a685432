/**
 * Gemma 4 and FunctionGemma: `<|tool_call>call:f{x:<|"|>text<|"|>,n:1}<tool_call|>`. Keys are bare and texts stand between quotes that are
 * tokens of their own, so that nothing in them has to be escaped.
 */
import { type ParsedCall, parseJson, type ToolCallFormat } from "./tool-call-format.ts";

/** The tags of one of the two families, and its quote. */
function gemmaFormat(open: string, close: string, quote: string): ToolCallFormat {
  return {
    isIn: (template) => template.includes(`${open}call:`),
    open,
    close,
    marks: [open, close, quote],
    parse: (content) => parseGemma(content, quote),
    frame: { begin: (name) => `${open}call:${name}`, end: close, between: "" },
  };
}

export const gemma4 = gemmaFormat("<|tool_call>", "<tool_call|>", '<|"|>');
export const functionGemma = gemmaFormat("<start_function_call>", "<end_function_call>", "<escape>");

function parseGemma(content: string, quote: string): readonly ParsedCall[] | undefined {
  const call = /^\s*call:([\w.-]+)\s*(\{[\s\S]*\})\s*$/.exec(content);
  if (call === null) return undefined;
  const [, name = "", body = ""] = call;
  // Every second piece stands between quotes. The others have bare keys, and their structure is that of JSON.
  const json = body
    .split(quote)
    .map((piece, i) =>
      i % 2 === 1 ? JSON.stringify(piece) : piece.replace(/([{,]\s*)([A-Za-z_][\w.-]*)\s*:/g, '$1"$2":'),
    )
    .join("");
  // A forced call has its arguments as JSON, in which nothing has to be quoted.
  const value = parseJson(body) ?? parseJson(json);
  return typeof value === "object" && value !== null ? [{ name, arguments: JSON.stringify(value) }] : undefined;
}
