/**
 * A language model as judge, behind any server that speaks the OpenAI chat format.
 *
 * Four modes: `rubric` grades the reply alone, `reference` compares it with the truth as an answer, `pairwise` with the truth
 * as a reply, asked in both orders and averaged; `word` asks a question about the reply that is answered with one word, and takes the
 * probability of that word, which small judges can do. A judge that does not answer, or not in the asked form, makes the reward
 * fail; beyond its budget it fails with BUDGET_SPENT. Neither is ever a 0.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { address, secret, secretFields, secretRecord } from "../../errors/secret.ts";
import { createBoundedPool } from "../bounded-pool.ts";
import { finalAnswer } from "../final-answer.ts";
import type { RewardDefinition, RewardInput, RewardScore } from "../reward.ts";
import { truthKey, truthTexts } from "../truth-texts.ts";
import { createBudget } from "./budget.ts";
import { createChatEndpoint } from "./chat-endpoint.ts";
import {
  type JudgeQuestion,
  pairQuestion,
  referenceQuestion,
  rubricQuestion,
  showConversation,
  wordQuestion,
} from "./questions.ts";
import { openVerdictCache, verdictKey } from "./verdict-cache.ts";
import { overlapOf, withoutRight } from "./word-verdict.ts";

const count = z.number().int().positive();

const words = z.array(z.string().min(1)).min(1);

const options = z
  .strictObject({
    mode: z
      .enum(["rubric", "reference", "pairwise", "word"])
      .describe(
        "How the judge decides: by a rubric, against a reference answer, which of two replies is better, or by the word it answers a question with.",
      ),
    baseUrl: address().describe("Address of the server, up to and without /chat/completions."),
    model: z.string().min(1).describe("Model that judges, as the server names it."),
    apiKey: secret().optional().describe("API key of the server, sent as a bearer token."),
    headers: secretRecord().optional().describe("Further headers of the request."),
    rubric: z
      .string()
      .default("Correctness first, then how well the reply does what was asked, then clarity.")
      .describe("Criteria for the judge, in plain words."),
    question: z
      .string()
      .min(1)
      .optional()
      .describe(
        'For mode "word": the question about a reply, which is answered with one word. It is the system message.',
      ),
    examples: z
      .array(z.strictObject({ reply: z.string(), answer: z.string().min(1) }))
      .default([])
      .describe('For mode "word": replies with the word that answers the question.'),
    answers: words
      .optional()
      .describe('For mode "word": the answers that speak for a reply. Default: the truth of the prompt.'),
    contrary: words
      .optional()
      .describe(
        'For mode "word": the answers that speak against a reply. With them, a judge that mostly answers something else makes the reward fail. Default: any other word.',
      ),
    temperature: z.number().nonnegative().default(0).describe("Sampling temperature of the judge."),
    maxReplyTokens: count.default(1024).describe("Most tokens that the judge may write."),
    body: secretFields().prefault({}).describe("Further fields of the request, as the server names them."),
    timeoutMs: count.default(60_000).describe("Time limit for one call."),
    maxRetries: z.number().int().nonnegative().default(4).describe("How often a failed call is repeated."),
    backoffMs: count.default(500).describe("Wait before the first retry; it doubles with every further one."),
    maxBackoffMs: count.default(60_000).describe("Longest wait between two retries."),
    concurrency: count.default(16).describe("Most calls at the same time."),
    maxCalls: count.optional().describe("Most calls in the whole run, retries included. Default: no limit."),
    maxTokens: count.optional().describe("Most tokens in the whole run. Default: no limit."),
    cacheFile: z
      .string()
      .optional()
      .describe("A JSONL file that keeps verdicts from run to run. Default: memory only."),
    truthKey,
  })
  .refine(({ mode, question }) => mode !== "word" || question !== undefined, {
    error: 'Mode "word" needs a question for the judge, such as question: "Is the reply polite? Answer Yes or No.".',
    path: ["question"],
  })
  .refine(({ answers = [], contrary = [] }) => overlapOf({ answers, contrary }) === undefined, {
    error:
      "A word of answers and one of contrary are equal, or one begins the other: no first token tells them apart. Choose other words.",
    path: ["contrary"],
  });

export const judge: RewardDefinition<typeof options> = {
  type: "judge",
  options,
  build: async (chosen) => {
    const { mode, model, temperature, maxReplyTokens, concurrency, rubric } = chosen;
    const baseUrl = chosen.baseUrl.reveal();
    const wants =
      mode === "word" ? { max_tokens: 1, logprobs: true, top_logprobs: 20 } : { max_tokens: maxReplyTokens };
    const body = { model, temperature, ...wants, ...chosen.body.reveal() };
    const ask = createChatEndpoint({ ...chosen, body, budget: createBudget(chosen) });
    const cache = await openVerdictCache(chosen.cacheFile);
    const pool = createBoundedPool({ concurrency, maxQueued: Number.POSITIVE_INFINITY });

    const verdictOn = async ({ messages, read, words }: JudgeQuestion, signal: AbortSignal): Promise<number> => {
      const key = verdictKey({ baseUrl, body, messages, words });
      const known = cache.get(key);
      if (known !== undefined) return known;
      const verdict = await pool.run(() => ask(messages, read, signal), signal);
      await cache.set(key, verdict);
      return verdict;
    };

    const score = async (input: RewardInput, signal: AbortSignal): Promise<RewardScore> => {
      const conversation = showConversation(withoutReply(input));
      const reply = finalAnswer(input.reply);
      if (mode === "word") {
        const { answers = truthTexts("judge", input.prompt, chosen.truthKey), examples, contrary = [] } = chosen;
        const words = withoutRight({ answers, contrary });
        const overlap = overlapOf(words);
        if (overlap !== undefined) throw overlapping(overlap);
        const question = chosen.question!;
        return { value: await verdictOn(wordQuestion(reply, { question, examples, ...words }), signal) };
      }
      if (mode === "rubric") return { value: await verdictOn(rubricQuestion(conversation, reply, rubric), signal) };
      const reference = truthTexts("judge", input.prompt, chosen.truthKey).join("\nor: ");
      if (mode === "reference") {
        return { value: await verdictOn(referenceQuestion(conversation, reply, reference, rubric), signal) };
      }
      const [first, second] = await Promise.all([
        verdictOn(pairQuestion(conversation, reply, reference, rubric), signal),
        verdictOn(pairQuestion(conversation, reference, reply, rubric), signal),
      ]);
      return { value: (first + 1 - second) / 2, parts: { consistent: Number(first === 1 - second) } };
    };
    return { name: "judge", cost: "network", score, close: () => cache.flush() };
  },
};

function overlapping([right, wrong]: readonly [string, string]): RerollError {
  return new RerollError(
    "INVALID_TRUTH",
    `The truth ${JSON.stringify(right)} and the contrary answer ${JSON.stringify(wrong)} begin alike: no first token tells them apart. Choose other words.`,
  );
}

/** What the last reply answers. */
function withoutReply({ messages, prompt }: RewardInput): RewardInput["messages"] {
  if (messages.length === 0) return prompt.messages;
  return messages.at(-1)?.role === "assistant" ? messages.slice(0, -1) : messages;
}
