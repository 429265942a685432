/**
 * A trainer in a thread or process of its own, here or on another machine, so that the event loop stays free while it computes.
 *
 * Calls run one after another, in order. Batches are copied over; a thread lends weights without a copy. When the worker fails, every call
 * rejects with the reason.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { Remote } from "../workers/remote.ts";
import type { Start } from "../workers/start.ts";
import { startInThread } from "../workers/start-in-thread.ts";
import { tensorCarrier } from "../workers/tensor-carrier.ts";
import type { Trainer, TuningTrainer } from "./trainer.ts";
import type { TrainerSource } from "./trainer-source.ts";
import type { TuningSource } from "./tuning-host.ts";

/** Loads a model in a new thread and trains it there. Rejects with the reason where that fails. The signal ends the thread. */
export async function startThreadedTrainer(source: TrainerSource, signal?: AbortSignal): Promise<Trainer> {
  return (await startTrainerIn(startInThread, source, signal)).ask;
}

/** The same wherever it is started, for whoever may have to end it while it computes. */
export function startTrainerIn(start: Start, source: TrainerSource, signal?: AbortSignal): Promise<Remote<Trainer>> {
  return startIn(start, new URL("trainer-worker", import.meta.url), source, signal);
}

/** The same for training on examples. */
export function startTuningIn(
  start: Start,
  source: TuningSource,
  signal?: AbortSignal,
): Promise<Remote<TuningTrainer>> {
  return startIn(start, new URL("tuning-worker", import.meta.url), source, signal);
}

/** The error of calls to a trainer that is gone; `how` is a verb: "was stopped". */
export function trainerLost(how: string): RerollError {
  return new RerollError("TRAINER_BROKEN", `The trainer's worker ${how}.`);
}

async function startIn<Host extends object>(
  start: Start,
  module: URL,
  source: unknown,
  signal: AbortSignal | undefined,
): Promise<Remote<Host>> {
  const worker = start<Host>(module, source, { carrier: tensorCarrier, lost: trainerLost });
  signal?.addEventListener("abort", () => void worker.end(trainerLost("was stopped")), { once: true });
  await worker.ready;
  return worker;
}
