/**
 * WebShop with a pretrained chat model: it searches a shop of real products, chooses options and buys.
 *
 * Trains     SmolLM2-135M-Instruct or any other small chat model with GiGPO, after supervised steps on play that knows which product is
 *            wanted, and searches for it with or without the options that the instruction names
 * Hardware   one GPU
 * Expect     docs/results.md
 * Data       WebShop's products.json and attributes.json (1,000 products) under data/webshop
 * Command    reroll train examples/recipes/webshop.ts --set model.path=models/SmolLM2-135M-Instruct
 */
import { defineRun } from "reroll";

const instructions = [
  "You shop for a customer. Find the product that the instruction asks for, choose its options, and buy it.",
  "Reply with one action: search[words], or a click that the page offers, such as click[buy now].",
].join("\n");
const shop = {
  type: "webshop",
  dataFolder: "data/webshop",
  prompt: "short",
  instructions,
  answerTags: null,
  maxTurns: 10,
  // What is bought without its options is worth more than half to WebShop: paid for that, the model would leave them out.
  reward: "success",
  formatPenalty: 0.01,
} as const;

export const run = defineRun({
  name: "webshop",
  model: { path: "models/SmolLM2-135M-Instruct" },
  envs: {
    // The same goals: they differ in the play of the warm start alone.
    brief: { ...shop, split: "train", oracleSearch: "request" },
    detailed: { ...shop, split: "train", oracleSearch: "instruction" },
    unseen: { ...shop, split: "validation" },
  },
  data: {
    type: "mix",
    parts: [
      { ratio: 80, source: { type: "env", env: "brief" } },
      { ratio: 20, source: { type: "env", env: "detailed" } },
    ],
  },
  rollout: {
    groupsPerStep: 16,
    groupSize: 8,
    maxInFlight: 256,
    context: "turn",
    contextLength: 896,
    sampling: { maxTokens: 96 },
  },
  algorithm: { type: "gigpo", gamma: 0.95, bypass: {} },
  training: { optimizer: { lr: 2e-5, betas: [0.9, 0.99] }, minibatch: 64, maxTokensPerMicrobatch: 16_384 },
  loop: { type: "sync", steps: 100 },
  warmStart: { type: "play", agent: "oracle", steps: 22, turnsPerStep: 96, optimizer: { lr: 5e-5 } },
  validation: {
    every: 20,
    prompts: 500,
    metric: "env/success",
    data: { type: "env", env: "unseen", part: "validation" },
  },
});
