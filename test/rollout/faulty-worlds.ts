/** Environments for faults.test.ts that run in threads: of every ten episodes one throws, hangs, gives garbage or exits. */
import { seedPrompt } from "../../src/envs/seed-prompt.ts";
import type { EnvFactory, EnvStep } from "../../src/envs/text-env.ts";
import { Random } from "../../src/random/random.ts";

export const faults = ["throw", "hang", "wait", "garbage", "exit", "none"] as const;
export type Fault = (typeof faults)[number];

/** Each fault with `share`, else "none". */
export function drawFault(seed: number, share: number): Fault {
  return faults[Math.floor(new Random(seed).uniform() / share)] ?? "none";
}

/** Two turns; the fault, where there is one, is in the step of one of them. */
export function faultyWorlds({ share }: { readonly share: number }): EnvFactory {
  return {
    makePrompt: (seed) => seedPrompt("faulty", seed),
    makeEnv: (_, seed) => {
      const fault = drawFault(seed, share);
      const faultyTurn = 1 + (seed % 2);
      let turn = 0;
      const observation = { messages: [{ role: "user", content: "Go on." }] };
      return {
        start: () => ({ instructions: [], observation }),
        step: (_reply, signal): EnvStep | Promise<EnvStep> => {
          turn++;
          if (turn === faultyTurn && fault !== "none") return act(fault, signal);
          const kind = turn === 2 ? "terminated" : "continues";
          return { kind, reward: 1, metrics: {}, observation };
        },
      };
    },
  };
}

function act(fault: Exclude<Fault, "none">, signal: AbortSignal): Promise<EnvStep> {
  switch (fault) {
    case "throw":
      throw new Error("thrown in a step");
    case "hang":
      for (;;);
    case "wait":
      return new Promise((resolve) => signal.addEventListener("abort", () => resolve({} as EnvStep)));
    case "garbage":
      return Promise.resolve({ kind: "won", reward: "much" } as unknown as EnvStep);
    case "exit":
      process.exit(3);
  }
}
