/** A run file whose agent does everything that code of others should not do, in the very process of the run. */
import { EventEmitter } from "node:events";
import { createServer } from "node:net";
import { defineRun } from "../../src/index.ts";

const kinds = ["calm", "gap", "timer", "rejection", "exit", "huge", "replace", "hang"];
const later = setTimeout;
/** Everything is replaced. */
let sayReplaced = () => {};
const replaced = new Promise<void>((resolve) => {
  sayReplaced = resolve;
});

export const run = defineRun({
  name: "agent",
  device: "cpu",
  model: { preset: "nano" },
  data: { type: "rows", rows: kinds.map((kind) => ({ id: kind, prompt: kind, answer: kind })) },
  agent: async ({ messages, ...prompt }, { baseURL, seed, signal }) => {
    const kind = String(messages[0]!.content);
    if (kind === "calm") await replaced;
    await fetch(`${baseURL}/chat/completions`, {
      method: "POST",
      signal,
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "agent", max_tokens: 2, seed, messages }),
    });
    if (kind === "gap") {
      const gap = new Promise((resolve) => later(resolve, 50));
      replaceEverything();
      sayReplaced();
      await gap;
    }
    (messages as unknown[]).length = 0;
    Object.assign(prompt, { id: "other" });
    if (kind === "timer") {
      process.removeAllListeners("uncaughtException");
      setTimeout(explode, 0);
    }
    if (kind === "rejection") void Promise.reject(new Error("nobody waits for this"));
    if (kind === "exit") process.exit(7);
    if (kind === "huge") return 1e300;
    if (kind === "replace") Array.prototype.push = explode;
    if (kind !== "hang") return seed % 2;
    // What keeps a process alive: a timer, an open port, and a promise that never settles.
    setInterval(() => {}, 1000);
    createServer().listen(0);
    return new Promise(() => {});
  },
  rollout: {
    ...{ groupsPerStep: 8, groupSize: 2, contextLength: 64, sampling: { maxTokens: 2 } },
    limits: { episodeSeconds: 3 },
  },
  training: { optimizer: { lr: 1e-3 } },
  loop: { type: "sync", steps: 1 },
  engine: { threads: 1 },
  tracking: { folder: process.env.HOSTILE_FOLDER!, tensorboard: false },
});

function replaceEverything(): void {
  for (const [holder, name] of [
    [globalThis, "setTimeout"],
    [globalThis, "fetch"],
    [globalThis, "Date"],
    [performance, "now"],
    [process, "emit"],
    [process, "nextTick"],
    [EventEmitter.prototype, "emit"],
    [JSON, "parse"],
    [Array.prototype, "map"],
    [Promise.prototype, "then"],
  ] as const) {
    Object.defineProperty(holder, name, { value: explode, configurable: true });
  }
}

function explode(): never {
  throw new Error("thrown in a timer");
}
