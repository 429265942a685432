/** The smallest game that can be learned: one reply of two words, and every letter in it pays. */
import type { EnvFactory } from "../../src/envs/text-env.ts";

export const wordGame: EnvFactory & { readonly type: "custom" } = {
  type: "custom",
  words: { words: ["yes", "no", "so", "?"], endWords: [] },
  makePrompt: (seed) => ({ id: `game/${seed}`, domain: "game", seed, messages: [], truth: null, extra: {} }),
  makeEnv: () => ({
    start: () => ({ instructions: [], observation: { messages: [{ role: "user", content: "so ?" }] } }),
    step: ({ text }) => ({ kind: "terminated", reward: text.length, metrics: {} }),
  }),
};

export const wordRollout = { groupsPerStep: 2, groupSize: 4, contextLength: 16, sampling: { maxTokens: 2 } } as const;
