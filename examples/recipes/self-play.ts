/**
 * Self-play against past versions: a model learns a game from matches against itself as it was a few steps ago.
 *
 * Trains     one of two players, who each say a digit; the higher one wins, and whoever says anything else has lost
 * Hardware   two CPU cores with the small preset
 * Expect     the digits rise to 9; the reward rises over 0.5 until the rival gets newer weights, and falls back
 * Command    reroll train examples/recipes/self-play.ts
 *
 * The rival plays with weights that are replaced every ten steps, so that there is someone to beat in between. It is not trained on.
 */
import OpenAI from "openai";
import { type AgentCall, type AgentEndpoint, type AgentScore, defineRun } from "reroll";

const question = "Your digit?";

async function sayDigit({ baseURL, apiKey, model }: AgentEndpoint, seed: number, signal: AbortSignal): Promise<number> {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const messages = [{ role: "user" as const, content: question }];
  const { choices } = await client.chat.completions.create({ model, messages, seed }, { signal });
  const said = choices[0]?.message.content ?? "";
  return /^\d$/.test(said) ? Number(said) : -1;
}

async function playHighDigit(_: unknown, { player, seed, signal }: AgentCall): Promise<AgentScore> {
  const [learner, rival] = await Promise.all([
    sayDigit(player("learner"), seed, signal),
    sayDigit(player("rival"), seed + 1, signal),
  ]);
  return { reward: { learner: (1 + Math.sign(learner - rival)) / 2 }, metrics: { learner, rival } };
}

export const run = defineRun({
  name: "self-play",
  model: { preset: "nano" },
  agent: playHighDigit,
  players: { learner: { type: "trained" }, rival: { type: "past", every: 10 } },
  data: { type: "rows", rows: [{ prompt: question, answer: "" }] },
  // From noise to digits, each as likely as the others.
  warmStart: {
    type: "data",
    data: { type: "rows", rows: [..."0123456789"].map((digit) => ({ prompt: question, answer: digit })) },
    steps: 40,
    rowsPerStep: 10,
    optimizer: { lr: 3e-3 },
  },
  rollout: { groupsPerStep: 1, groupSize: 64, contextLength: 64, sampling: { maxTokens: 2 } },
  training: { optimizer: { lr: 5e-4 } },
  loop: { type: "sync", steps: 40 },
});
