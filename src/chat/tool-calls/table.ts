/** All formats by name, and which of them a model writes: the first that its chat template shows. */
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import { functionGemma, gemma4 } from "./gemma.ts";
import { harmony } from "./harmony.ts";
import { hermes } from "./hermes.ts";
import { llamaJson } from "./llama-json.ts";
import { mistral } from "./mistral.ts";
import { pythonic } from "./pythonic.ts";
import { qwenXml } from "./qwen-xml.ts";
import type { ToolCallFormat } from "./tool-call-format.ts";

/** In the order in which a template is looked at: those that show more of themselves come first. */
export const toolCallFormats = {
  harmony,
  "qwen-xml": qwenXml,
  gemma4,
  "function-gemma": functionGemma,
  mistral,
  hermes,
  pythonic,
  "llama-json": llamaJson,
} as const satisfies Record<string, ToolCallFormat>;

export type ToolCallFormatName = keyof typeof toolCallFormats;

const names = Object.keys(toolCallFormats) as ToolCallFormatName[];

/** The format of a model by its chat template; Hermes' where the template says nothing of calls. */
export function toolCallFormatOf({ chatTemplates }: Pick<Tokenizer, "chatTemplates">): ToolCallFormatName {
  const source = chatTemplates.get("tool_use") ?? chatTemplates.get("default") ?? "";
  return names.find((name) => toolCallFormats[name].isIn(source)) ?? "hermes";
}

/** The format of a text alone, by how its calls begin; Hermes' where there are none. */
export function toolCallFormatIn(text: string): ToolCallFormatName {
  const begins = (name: ToolCallFormatName) => {
    const { open, isAtStart = false }: ToolCallFormat = toolCallFormats[name];
    return isAtStart ? text.trimStart().startsWith(open) : text.includes(open);
  };
  const isXml = text.includes("<function=");
  return names.find((name) => (name !== "qwen-xml" || isXml) && begins(name)) ?? "hermes";
}
