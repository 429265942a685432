/** One rank of bench/strategy-memory.ts, in a process of its own: trains two steps and says what it holds in the second one. */
import { memoryStats } from "../src/torch/memory.ts";
import { buildTrainer, type TrainerSource } from "../src/training/trainer-source.ts";
import { hostInWorker } from "../src/workers/host-in-process.ts";
import { batchOf } from "../test/training/token-batches.ts";

/** Live bytes when the gradients are complete and nothing else is under way: weights, gradients and optimizer state. */
export interface MemoryRank {
  measure(): Promise<number>;
}

await hostInWorker<TrainerSource>(async (source): Promise<MemoryRank> => {
  const before = memoryStats().liveBytes;
  const { trainer, strategy } = await buildTrainer(source);
  let live = 0;
  const { boundGradients } = strategy;
  Object.assign(strategy, {
    boundGradients: (...args: Parameters<typeof boundGradients>) => {
      live = memoryStats().liveBytes - before;
      return boundGradients(...args);
    },
  });
  return {
    measure: async () => {
      for (const step of [0, 1]) await trainer.step(batchOf("single", step));
      return live;
    },
  };
});
