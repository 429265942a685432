/** A run file whose environment hangs on one of its prompts, and throws in timers on another. */
import { defineRun, type EnvFactory } from "../../src/index.ts";

const NUM_TURNS = 3;
const kinds = ["calm", "endless", "timer", ...Array<string>(13).fill("calm")];

const counting: EnvFactory = {
  makePrompt: (seed) => ({
    ...{ id: `p${seed}`, domain: "counting", seed, messages: [{ role: "user", content: "a" }], truth: null },
    extra: { kind: kinds[seed % kinds.length]! },
  }),
  makeEnv: ({ extra, messages }, seed) => {
    const { kind } = extra as { kind: string };
    let numSteps = 0;
    return {
      start: () => ({ instructions: [], observation: { messages } }),
      step: () => {
        numSteps++;
        if (kind === "endless" && numSteps === 2) for (;;);
        if (kind === "timer" && numSteps === 1) setTimeout(explode, 0);
        const facts = { reward: seed % 2, metrics: { steps: numSteps } };
        return numSteps === NUM_TURNS
          ? { ...facts, kind: "terminated" }
          : { ...facts, kind: "continues", observation: { messages } };
      },
    };
  },
};

function explode(): never {
  throw new Error("thrown in a timer");
}

export const run = defineRun({
  name: "lost",
  device: "cpu",
  model: { preset: "nano" },
  envs: { counting: { type: "custom", ...counting } },
  rewards: {
    default: {
      type: "custom",
      name: "loose",
      score: () => {
        void Promise.reject(new Error("nobody waits for this"));
        return { value: 0 };
      },
    },
  },
  rollout: {
    ...{ groupsPerStep: 8, groupSize: 2, maxInFlight: 16, contextLength: 64, sampling: { maxTokens: 2 } },
    ...{ context: "turn", limits: { envSeconds: 1 } },
  },
  training: { optimizer: { lr: 1e-3 } },
  loop: { type: "sync", steps: 1 },
  validation: { prompts: 1 },
  engine: { threads: 1 },
  tracking: { folder: process.env.LOST_FOLDER ?? "runs", tensorboard: false },
});
