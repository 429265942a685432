/**
 * The strategies of training: how the work of one trainer is spread. Each is a function from plain data to a `Trainer`, and is taken by what
 * the run file says under `training`.
 *
 * To add one: a file with its function, and here its keys and when it is taken.
 */
import { startInThread } from "../workers/start-in-thread.ts";
import { type RankPlaces, startRankedTrainer, startRankedTuning } from "./ranked-trainer.ts";
import { startThreadedTrainer, startTuningIn } from "./threaded-trainer.ts";
import type { Trainer, TuningTrainer } from "./trainer.ts";
import type { TrainerSource } from "./trainer-source.ts";
import type { TuningSource } from "./tuning-host.ts";

/** A trainer, spread as its options say. Resolves when it can be asked for a step. `places`: other machines that its ranks run on. */
export function startTrainer(source: TrainerSource, places?: RankPlaces): Promise<Trainer> {
  const { ranks } = source.training;
  return ranks === 1 ? startThreadedTrainer(source) : startRankedTrainer(source, ranks, places);
}

/** The same for training on examples. */
export async function startTuning(source: TuningSource, places?: RankPlaces): Promise<TuningTrainer> {
  const { ranks } = source.training;
  return ranks === 1 ? (await startTuningIn(startInThread, source)).ask : startRankedTuning(source, ranks, places);
}
