/** A tuning run with all the state there is: moments, a schedule, several passes over the data, validation, the best checkpoint. */
import { defineTuning } from "../../src/tuning/tuning-config.ts";

const row = (number: number) => ({ prompt: `What is ${number} + 1?`, completion: `${number + 1}` });

export const run = defineTuning({
  name: "resume",
  device: "cpu",
  model: { preset: "nano" },
  objective: { type: "supervised" },
  data: { type: "rows", rows: Array.from({ length: 11 }, (_, i) => row(i)) },
  contextLength: 64,
  loop: { epochs: 3, rowsPerStep: 4 },
  training: { optimizer: { lr: 3e-3, weightDecay: 0.1 }, schedule: { type: "cosine", warmup: 2 }, threads: 1 },
  validation: { data: { type: "rows", rows: [row(20)] }, every: 2 },
  checkpoint: { every: 1 },
  tracking: { tensorboard: false },
});
