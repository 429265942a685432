/** The run that is disturbed: in turns, with an engine and a second rank of the trainer in processes of their own, all of it recorded. */
import { defineRun } from "../../src/index.ts";
import { wordGame, wordRollout } from "./word-game.ts";

export const run = defineRun({
  name: "faults",
  device: "cpu",
  model: { preset: "nano" },
  envs: { game: wordGame },
  rollout: wordRollout,
  training: { optimizer: { lr: 1e-3 }, threads: 1, ranks: 2, strategy: { in: "processes" } },
  engine: { threads: 1 },
  placement: { engine: { workers: "processes" } },
  loop: { type: "sync", steps: 12 },
  checkpoint: { every: 2 },
  tracking: { trajectoriesEvery: 1, maxGroups: 10, tensorboard: false },
});
