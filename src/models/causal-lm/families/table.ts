/** Every model family, by the model_type of its config.json. The only list of families there is. */
import type { ModelFamily } from "./family.ts";
import { gemma2 } from "./gemma2.ts";
import { gemma3 } from "./gemma3.ts";
import { glm4 } from "./glm4.ts";
import { gptOss } from "./gpt-oss.ts";
import { llama } from "./llama.ts";
import { mistral } from "./mistral.ts";
import { olmo2 } from "./olmo2.ts";
import { phi3 } from "./phi3.ts";
import { qwen2 } from "./qwen2.ts";
import { qwen3 } from "./qwen3.ts";
import { qwen35 } from "./qwen3-5.ts";
import { qwen3Moe } from "./qwen3-moe.ts";
import { qwen3Next } from "./qwen3-next.ts";
import { smollm3 } from "./smollm3.ts";

export const families = {
  llama,
  mistral,
  qwen2,
  qwen3,
  qwen3_moe: qwen3Moe,
  gemma2,
  gemma3_text: gemma3,
  phi3,
  olmo2,
  smollm3,
  glm4,
  gpt_oss: gptOss,
  qwen3_next: qwen3Next,
  qwen3_5_text: qwen35,
} as const satisfies Record<string, ModelFamily>;

/** The name of a model family: the model_type of its config.json. */
export type Family = keyof typeof families;

/** The names of the families, in the order of the table. */
export const familyNames = Object.keys(families) as readonly Family[];
