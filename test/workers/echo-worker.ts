/** A process that answers: what start-in-process.test.ts starts. */
import { RerollError } from "../../src/errors/reroll-error.ts";
import { hostInWorker } from "../../src/workers/host-in-process.ts";

export interface EchoHost {
  /** Adds up bytes, and calls back before it answers. */
  add(bytes: Uint8Array, listen: (sum: number) => Promise<number>): Promise<number>;
  end(): Promise<never>;
  /** Keeps its thread busy, and says which process it is. */
  compute(forMs: number): Promise<{ readonly pid: number }>;
}

await hostInWorker<{ readonly start: number }>(async ({ start }): Promise<EchoHost> => {
  if (start < 0) throw new RerollError("INVALID_ARGUMENT", `start must be 0 or more: got ${start}.`);
  return {
    add: async (bytes, listen) => listen(bytes.reduce((sum, byte) => sum + byte, start)),
    end: async () => process.exit(3),
    compute: async (forMs) => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, forMs);
      return { pid: process.pid };
    },
  };
});
