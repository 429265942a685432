/** A run file whose environment and reward do everything that code of others should not do. */
import { defineRun, type EnvFactory } from "../../src/index.ts";

const kinds = [
  "calm",
  "timer",
  "rejection",
  "exit",
  "huge",
  "circular",
  "getter",
  "crowd",
  "mutation",
  "env-loop",
  "score-loop",
];

/** What becomes of every third prompt. */
const unmade = [
  () => explode("in makePrompt"),
  () => process.exit(7),
  () => undefined as never,
  () => {
    for (;;);
  },
];

const hostile: EnvFactory = {
  makePrompt: (seed) => {
    if (seed % 3 === 0) return unmade[(seed / 3) % unmade.length]!();
    return {
      ...{ id: `p${seed}`, domain: "hostile", seed, messages: [{ role: "user", content: "a" }] },
      ...{ truth: null, extra: { kind: kinds[seed % kinds.length]! } },
    };
  },
  makeEnv: (prompt, seed) => {
    if (seed % 2 === 0) replaceLanguage();
    const kind = (prompt.extra as { kind: string }).kind;
    return {
      start: () => ({ instructions: [], observation: { messages: prompt.messages } }),
      step: async () => {
        const step = { kind: "terminated" as const, reward: seed % 2, metrics: {} };
        if (kind === "timer") setTimeout(() => explode("in a timer"), 0);
        if (kind === "rejection") void Promise.reject(new Error("nobody waits for this"));
        if (kind === "exit") process.exit(7);
        if (kind === "huge") return { ...step, reward: 1e300 };
        if (kind === "crowd")
          return { ...step, metrics: Object.fromEntries(Array.from({ length: 1e4 }, (_, i) => [i, i])) };
        if (kind === "getter")
          return {
            ...step,
            get reward(): number {
              return explode("in a getter");
            },
          };
        if (kind === "mutation") (prompt.extra as { kind: string }).kind = "exit";
        if (kind === "env-loop" && seed % 4 === 0) for (;;);
        if (kind !== "circular") return step;
        const messages: { role: string; content: string; self?: unknown }[] = [{ role: "user", content: "a" }];
        messages[0]!.self = messages;
        return { ...step, kind: "continues" as const, observation: { messages } };
      },
    };
  },
};

/** What everything in the thread is made of: the next call would fail, whatever episode it is for. */
function replaceLanguage(): void {
  for (const [holder, name] of [
    [Map.prototype, "get"],
    [Promise.prototype, "then"],
    [JSON, "stringify"],
    [globalThis, "structuredClone"],
    [Object.prototype, "items"],
    [Array.prototype, "push"],
  ] as const) {
    Object.defineProperty(holder, name, { value: () => explode("by a replaced function"), configurable: true });
  }
}

function explode(where: string): never {
  throw new Error(`thrown ${where}`);
}

export const run = defineRun({
  name: "hostile",
  device: "cpu",
  model: { preset: "nano" },
  envs: { hostile: { type: "custom", ...hostile } },
  rewards: {
    default: {
      type: "custom",
      name: "grim",
      score: async ({ prompt, numReplyTokens }) => {
        await Promise.resolve();
        if ((prompt.extra as { kind: string }).kind === "score-loop" && numReplyTokens === 2) for (;;);
        return { value: numReplyTokens };
      },
    },
  },
  rollout: {
    ...{ groupsPerStep: 8, groupSize: 2, contextLength: 64, sampling: { maxTokens: 2 } },
    limits: { envSeconds: 2 },
  },
  training: { optimizer: { lr: 1e-3 } },
  loop: { type: "sync", steps: 1 },
  engine: { threads: 1 },
  tracking: { folder: process.env.HOSTILE_FOLDER!, tensorboard: false },
});
