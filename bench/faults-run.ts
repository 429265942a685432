/**
 * The run that `faults.ts` disturbs and `soak.ts` watches: a nano model learns a game of two replies, asynchronously, with two engines in
 * processes of their own. Every group is recorded, so that what was trained on can be counted. Both give it the game on servers of
 * `reroll serve-environments`, which take this file too.
 */
import { defineRun, type EnvFactory } from "reroll";

/** Two replies of two words, and every letter pays: at best "yes yes", or more letters of whatever else the vocabulary has. */
const wordGame: EnvFactory = {
  words: { words: ["yes", "no", "so", "?"], endWords: [] },
  makePrompt: (seed) => ({ id: `game/${seed}`, domain: "game", seed, messages: [], truth: null, extra: {} }),
  makeEnv: () => {
    let numLetters = 0;
    let numReplies = 0;
    return {
      start: () => ({ instructions: [], observation: { messages: [{ role: "user", content: "so ?" }] } }),
      step: ({ text }) => {
        numLetters += text.length;
        return ++numReplies < 2
          ? { kind: "continues", reward: 0, observation: { messages: [{ role: "user", content: "?" }] }, metrics: {} }
          : { kind: "terminated", reward: numLetters, metrics: {} };
      },
    };
  },
};

export const run = defineRun({
  name: "faults",
  device: "cpu",
  model: { preset: "nano" },
  envs: { game: { type: "custom", ...wordGame } },
  rollout: { groupsPerStep: 4, groupSize: 4, maxInFlight: 32, contextLength: 32, sampling: { maxTokens: 2 } },
  training: { optimizer: { lr: 2e-4 }, threads: 1 },
  engine: { threads: 1 },
  placement: { engine: { count: 2, workers: "processes" } },
  loop: { type: "async", steps: 300, maxStaleness: 2 },
  checkpoint: { every: 5, keep: 3 },
  tracking: { trajectoriesEvery: 1, maxGroups: 1000, tensorboard: false },
});
