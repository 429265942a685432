/** Prompts of environments that draw their start from a seed alone. */
import type { Prompt } from "../flow/prompt.ts";

/** The prompt of one seed: the environment writes the conversation, and nothing else is needed. */
export function seedPrompt(type: string, seed: number): Prompt {
  return { id: `${type}/${seed}`, domain: type, seed, messages: [], truth: null, extra: {} };
}
