/** Every model family, by the model_type of its config.json. The only list of families there is. */
import type { ModelFamily } from "./family.ts";
import { gemma3 } from "./gemma3.ts";
import { llama } from "./llama.ts";
import { mistral } from "./mistral.ts";
import { qwen2 } from "./qwen2.ts";
import { qwen3 } from "./qwen3.ts";
import { qwen3Moe } from "./qwen3-moe.ts";

export const families = {
  llama,
  mistral,
  qwen2,
  qwen3,
  qwen3_moe: qwen3Moe,
  gemma3_text: gemma3,
} as const satisfies Record<string, ModelFamily>;

/** The name of a model family: the model_type of its config.json. */
export type Family = keyof typeof families;

/** The names of the families, in the order of the table. */
export const familyNames = Object.keys(families) as readonly Family[];
