/** Environments for faults.test.ts that run in threads: some episodes throw, hang, give garbage or end their thread. */
import { seedPrompt } from "../../src/envs/seed-prompt.ts";
import type { EnvFactory, EnvStep } from "../../src/envs/text-env.ts";
import { Random } from "../../src/random/random.ts";

export const faults = ["throw", "hang", "garbage", "exit"] as const;
export type Fault = (typeof faults)[number] | "none";

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
        step: (): EnvStep => {
          turn++;
          if (turn === faultyTurn && fault !== "none") return act(fault);
          const kind = turn === 2 ? "terminated" : "continues";
          return { kind, reward: 1, metrics: {}, observation };
        },
      };
    },
  };
}

function act(fault: Exclude<Fault, "none">): EnvStep {
  switch (fault) {
    case "throw":
      throw new Error("thrown in a step");
    case "hang":
      for (;;);
    case "garbage":
      return { kind: "won", reward: "much" } as unknown as EnvStep;
    case "exit":
      process.exit(3);
  }
}
