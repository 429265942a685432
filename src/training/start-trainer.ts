/**
 * The strategies of training: how the work of one trainer is spread. Each is a function from plain data to a `Trainer`, and is taken by what
 * the run file says under `training`.
 *
 * To add one: a file with its function, and here its keys and when it is taken.
 */
import { z } from "zod";
import { startRankedTrainer } from "./ranked-trainer.ts";
import { startThreadedTrainer } from "./threaded-trainer.ts";
import type { Trainer } from "./trainer.ts";
import type { TrainerHostSource } from "./trainer-host.ts";

/** The keys of `training` that choose a strategy. */
export const strategyOptions = {
  ranks: z
    .int()
    .positive()
    .default(1)
    .describe(
      "Trainers that share each batch. Each is a thread with the whole model, on a GPU of its own where there are GPUs.",
    ),
};

/** A trainer, spread as its options say. Resolves when it can be asked for a step. */
export function startTrainer(host: TrainerHostSource): Promise<Trainer> {
  const { ranks } = host.source.training;
  return ranks === 1 ? startThreadedTrainer(host) : startRankedTrainer(host, ranks);
}
