/** A trainer that learns nothing: it takes batches, and says that it has trained on them. */
import type { SampleBatch } from "../src/flow/token-sample.ts";
import type { Tensor } from "../src/torch/tensor.ts";
import { hostInWorker } from "../src/workers/host-in-process.ts";
import { tensorCarrier } from "../src/workers/tensor-carrier.ts";
import { type MarkMemory, note } from "./step-marks.ts";

await hostInWorker(
  ({ marks }: { readonly marks: MarkMemory }) => ({
    step: async ({ samples }: SampleBatch) => {
      note(marks, "batchTaken");
      return { numUpdates: samples.length > 0 ? 1 : 0, numSkippedInRow: 0, metrics: {} };
    },
    withParameters: async (use: (parameters: ReadonlyMap<string, Tensor>) => Promise<void>) => use(new Map()),
    memory: async () => [{ roles: [], peakBytes: null }],
    saveModel: async () => new Map(),
    saveState: async () => new Map(),
  }),
  { carrier: tensorCarrier },
);
