/** A worker that opens as an engine does and fails in the given way at the first request. */
import type { EngineStatus } from "../../src/generation/engine.ts";
import { engineLine } from "../../src/generation/local/engine-host.ts";
import { hostInThread } from "../../src/workers/host-in-thread.ts";

const forever = new Promise<never>(() => {});

function fail(fault: "throws" | "exits"): Promise<never> {
  if (fault === "exits") process.exit(7);
  // Outside of the call, which would only reject.
  setImmediate(() => {
    throw new Error("lost a wheel");
  });
  return forever;
}

await hostInThread(
  (fault: "throws" | "exits") => ({
    describe: async () => ({ status: {} as EngineStatus, limits: { vocabSize: 9, contextLength: 9 } }),
    watch: () => forever,
    pause: () => forever,
    updateWeights: () => forever,
    generate: () => fail(fault),
  }),
  engineLine(setImmediate),
);
