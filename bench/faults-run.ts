/**
 * The run that `faults.ts` disturbs and `soak.ts` watches: a nano model learns a game of one reply, asynchronously, with two engines and the
 * environment in processes of their own. Every group is recorded, so that what was trained on can be counted.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { defineRun, type EnvFactory } from "reroll";

/** The process of the environment. One that is gone fails the samples that it was asked about, and the next call starts another. */
class GameServer {
  readonly #waiting = new Map<number, { resolve: (reward: number) => void; reject: (error: Error) => void }>();
  #child: ChildProcess | null = null;
  #numAsked = 0;

  ask(text: string): Promise<number> {
    this.#child ??= this.#start();
    const id = this.#numAsked++;
    this.#child.stdin!.write(`${JSON.stringify({ id, text })}\n`);
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  #start(): ChildProcess {
    const file = fileURLToPath(new URL("faults-env.mjs", import.meta.url));
    const child = spawn(process.execPath, [file], { stdio: ["pipe", "pipe", "inherit"] });
    child.stdin!.on("error", () => {});
    createInterface({ input: child.stdout! }).on("line", (line) => {
      const { id, reward } = JSON.parse(line) as { id: number; reward: number };
      this.#waiting.get(id)?.resolve(reward);
      this.#waiting.delete(id);
    });
    child.once("exit", (_, signal) => {
      this.#child = null;
      for (const { reject } of this.#waiting.values()) reject(new Error(`The game's process was ended by ${signal}.`));
      this.#waiting.clear();
    });
    return child;
  }
}

const server = new GameServer();

/** Two words, and every letter pays: at best "yes yes", or more letters of whatever else the vocabulary has. */
const wordGame: EnvFactory = {
  words: { words: ["yes", "no", "so", "?"], endWords: [] },
  makePrompt: (seed) => ({ id: `game/${seed}`, domain: "game", seed, messages: [], truth: null, extra: {} }),
  makeEnv: () => ({
    start: () => ({ instructions: [], observation: { messages: [{ role: "user", content: "so ?" }] } }),
    step: async ({ text }) => ({ kind: "terminated", reward: await server.ask(text), metrics: {} }),
  }),
};

export const run = defineRun({
  name: "faults",
  device: "cpu",
  model: { preset: "nano" },
  envs: { game: { type: "custom", ...wordGame } },
  rollout: { groupsPerStep: 4, groupSize: 4, maxInFlight: 32, contextLength: 16, sampling: { maxTokens: 2 } },
  training: { optimizer: { lr: 2e-4 }, threads: 1 },
  engine: { threads: 1 },
  placement: { engine: { count: 2, workers: "processes" } },
  loop: { type: "async", steps: 300, maxStaleness: 2 },
  checkpoint: { every: 5, keep: 3 },
  tracking: { trajectoriesEvery: 1, maxGroups: 1000, tensorboard: false },
});
