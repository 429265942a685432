/**
 * A question and one reply. The prompt's messages are the conversation; what the reply is worth, reward functions say
 * afterwards, so the reward here is always 0.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import type { Prompt } from "../../flow/prompt.ts";
import type { Random } from "../../random/random.ts";
import { episodeEnded } from "../episode-ended.ts";
import type { EnvDefinition, EnvStep, Opening, Reply, TextEnv } from "../text-env.ts";

/** The options of `{ type: "question-answer" }`. */
const questionAnswerOptions = z.strictObject({
  system: z.string().min(1).exactOptional().describe("System message for prompts that have none."),
});

/** The options with their defaults filled in. */
type QuestionAnswerOptions = z.output<typeof questionAnswerOptions>;

/** Question and answer as run files name it. */
export const questionAnswer: EnvDefinition<typeof questionAnswerOptions> = {
  type: "question-answer",
  options: questionAnswerOptions,
  build: (options) => ({ makeEnv: (prompt) => new QuestionAnswerEnv(prompt, options) }),
};

/** One question and one reply. */
export class QuestionAnswerEnv implements TextEnv {
  readonly #prompt: Prompt;
  readonly #options: QuestionAnswerOptions;
  #hasEnded = false;

  constructor(prompt: Prompt, options: QuestionAnswerOptions) {
    this.#prompt = prompt;
    this.#options = options;
  }

  start(): Opening {
    return openConversation(this.#prompt, this.#options.system);
  }

  step({ isCut }: Reply): EnvStep {
    if (this.#hasEnded) throw episodeEnded("question-answer");
    this.#hasEnded = true;
    return { kind: isCut ? "truncated" : "terminated", reward: 0, metrics: {} };
  }

  /** Every text is legal. */
  randomReply(random: Random): string {
    return String(random.integer(100));
  }

  /** What is best is known to the rewards only. */
  oracleReply(): null {
    return null;
  }
}

/** The last message is what the model answers; all before it, and the system text where the prompt has none, are instructions. */
export function openConversation({ id, messages, tools }: Prompt, system?: string): Opening {
  const last = messages.at(-1);
  if (last === undefined) {
    throw new RerollError(
      "DATA_INVALID",
      `Prompt "${id}" has no messages. This environment needs the question there.`,
      {
        id,
      },
    );
  }
  const isSystemNeeded = system !== undefined && messages[0]?.role !== "system";
  return {
    instructions: [...(isSystemNeeded ? [{ role: "system", content: system }] : []), ...messages.slice(0, -1)],
    ...(tools === undefined ? {} : { tools }),
    observation: { messages: [last] },
  };
}
