/**
 * Prompts that an environment makes from seeds.
 *
 * Training draws from the seeds below 2^31, starting where the seed of the run says; validation from those above, always from
 * the first one on, so that all runs are measured by the same tasks and no run trains on them.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { Prompt } from "../flow/prompt.ts";
import { deriveSeed } from "../random/random.ts";
import { indexedSource, type PassOptions } from "./indexed-source.ts";
import type { PromptSource } from "./prompt-source.ts";

/** Which environment makes the prompts, and from which seeds. */
interface EnvSourceOptions extends PassOptions {
  /** The domain of the environment. */
  readonly name: string;
  readonly makePrompt: (seed: number) => Prompt | Promise<Prompt>;
  readonly part: "train" | "validation";
  /** Tasks in one pass. Default: a new one for every prompt, without end. */
  readonly numPrompts?: number | undefined;
}

const HALF = 2 ** 31;

/** A source over prompts that are made when asked for. */
export function envSource(options: EnvSourceOptions): PromptSource {
  const { name, makePrompt, part, numPrompts, seed } = options;
  const isTrain = part === "train";
  const start = isTrain ? deriveSeed(seed, "env", name) : 0;
  const { size, ...source } = indexedSource(
    {
      size: numPrompts ?? HALF,
      promptAt: (index) => promptOf(name, makePrompt, ((start + index) % HALF) + (isTrain ? 0 : HALF)),
      making: { type: "env", name, part, start },
      title: `The prompts of the environment ${JSON.stringify(name)}`,
    },
    // An endless row of new tasks needs no shuffle, and 2^31 numbers would not fit.
    { ...options, isShuffled: numPrompts !== undefined && (options.isShuffled ?? true) },
  );
  return numPrompts === undefined ? source : { ...source, size: numPrompts };
}

/** Foreign code: what it throws, and what is no prompt, is told with its name and the seed, by which it can be tried again. */
async function promptOf(name: string, makePrompt: EnvSourceOptions["makePrompt"], seed: number): Promise<Prompt> {
  const failed = (reason: string, cause?: unknown) =>
    new RerollError(
      "PROMPT_FAILED",
      `makePrompt(${seed}) of the environment ${JSON.stringify(name)} failed: ${reason}`,
      { name, seed },
      { cause },
    );
  try {
    const prompt: unknown = await makePrompt(seed);
    if (isPrompt(prompt)) return prompt;
  } catch (cause) {
    // The prompt is not to blame.
    if (cause instanceof RerollError && cause.code === "SERVICE_LOST") throw cause;
    throw failed(cause instanceof Error ? cause.message : String(cause), cause);
  }
  throw failed("what it returned is no prompt. Return an object with id, domain, seed, messages, truth and extra.");
}

function isPrompt(value: unknown): value is Prompt {
  if (typeof value !== "object" || value === null) return false;
  const { id, messages } = value as Partial<Prompt>;
  return typeof id === "string" && Array.isArray(messages);
}
