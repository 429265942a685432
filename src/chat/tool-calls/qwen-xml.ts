/**
 * Qwen3-Coder and Qwen 3.5: `<tool_call><function=f><parameter=x>value</parameter></function></tool_call>`.
 *
 * Values are bare text: what they are is known from the tool's schema, or guessed where there is none. Calls in Hermes' form are read as
 * well, since the two share their tags.
 */
import { hermes } from "./hermes.ts";
import { type ArgumentTypes, type ParsedCall, parseJson, type ToolCallFormat } from "./tool-call-format.ts";

export const qwenXml: ToolCallFormat = {
  ...hermes,
  isIn: (template) => template.includes("<function=") && template.includes("<parameter="),
  parse: (content, typesOf) => parseXml(content, typesOf) ?? hermes.parse(content, typesOf),
};

function parseXml(content: string, typesOf: ArgumentTypes): readonly ParsedCall[] | undefined {
  const call = /^\s*<function=([^>\s]+)>([\s\S]*)<\/function>\s*$/.exec(content);
  if (call === null) return undefined;
  const [, name = "", body = ""] = call;
  const given: Record<string, unknown> = {};
  let rest = body.trim();
  while (rest !== "") {
    const parameter = /^<parameter=([^>\s]+)>\n?/.exec(rest);
    if (parameter === null) return undefined;
    const key = parameter[1]!;
    const end = rest.indexOf("</parameter>");
    if (end < parameter[0].length) return undefined;
    given[key] = argumentOf(rest.slice(parameter[0].length, end).replace(/\n$/, ""), typesOf(name, key));
    rest = rest.slice(end + "</parameter>".length).trim();
  }
  return [{ name, arguments: JSON.stringify(given) }];
}

function argumentOf(text: string, schema: unknown): unknown {
  const type = typeof schema === "object" && schema !== null && "type" in schema ? schema.type : undefined;
  if (type === "string") return text;
  const value = parseJson(text);
  // A quoted text without a schema is more likely a text with quotes than one too many.
  return value === undefined || (type === undefined && typeof value === "string") ? text : value;
}
