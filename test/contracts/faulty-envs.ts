/**
 * Environments that do as a reply says: for tests of what runs them in threads.
 *
 * `count` answers with the number of steps so far, `echo` with the thread's number; `throw`, `uncloneable`, `wait` (until aborted), `hang`, `crash` and `exit` do harm,
 * `replace` and `lock` to a function that everything uses, `forge` to the line with the thread's owner, and `break` to what handles errors.
 */
import { parentPort, threadId } from "node:worker_threads";
import { seedPrompt } from "../../src/envs/seed-prompt.ts";
import type { EnvFactory, EnvStep } from "../../src/envs/text-env.ts";

/** What a thread is told to build. Prompt `faulty/666` makes no environment. */
export function faultyEnvs({ fails = false }: { readonly fails?: boolean }): EnvFactory {
  if (fails) throw new Error("no data here");
  return {
    makePrompt: (seed) => seedPrompt("faulty", seed),
    makeEnv: (prompt) => {
      if (prompt.id === "faulty/666") throw new Error("cannot be made");
      let numSteps = 0;
      return {
        start: () => ({ instructions: [], observation: { messages: [{ role: "user", content: "say" }] } }),
        step: async ({ text }, signal) => {
          numSteps++;
          const step = await act(text, signal);
          return text === "count" ? { ...step, reward: numSteps } : step;
        },
        render: () => `thread ${threadId}`,
      };
    },
  };
}

async function act(text: string, signal: AbortSignal): Promise<EnvStep> {
  const step: EnvStep = {
    kind: "continues",
    reward: threadId,
    metrics: {},
    observation: { messages: [{ role: "user", content: text }] },
  };
  switch (text) {
    case "throw":
      throw new Error("told to");
    case "uncloneable":
      return Object.assign(step, { act });
    case "wait":
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return step;
    case "hang":
      for (;;);
    case "hang later":
      await new Promise((resolve) => setTimeout(resolve, 1));
      for (;;);
    case "crash":
      setTimeout(() => {
        throw new Error("crashed as told");
      });
      await new Promise(() => {});
      return step;
    case "exit":
      return process.exit(3);
    case "replace":
      Array.prototype.push = harm;
      return step;
    case "lock":
      Object.defineProperty(Array.prototype, "push", { value: harm, writable: false, configurable: false });
      return step;
    case "forge":
      parentPort!.postMessage(null);
      await new Promise(() => {});
      return step;
    case "break":
      process.emit = harm;
      setTimeout(harm);
      await new Promise(() => {});
  }
  return step;
}

function harm(): never {
  throw new Error("harmed as told");
}
