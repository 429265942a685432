/**
 * A trainer in a thread of its own, so that the event loop stays free while it computes.
 *
 * Calls run one after another, in order. Batches are copied over; weights are lent without a copy. When the thread fails, every call
 * rejects with the reason.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { Remote } from "../workers/remote.ts";
import { startInThread } from "../workers/start-in-thread.ts";
import { tensorCarrier } from "../workers/tensor-carrier.ts";
import type { Trainer, TuningTrainer } from "./trainer.ts";
import type { TrainerSource } from "./trainer-source.ts";
import type { TuningSource } from "./tuning-host.ts";

/** Loads a model in a new thread and trains it there. Rejects with the reason where that fails. The signal ends the thread. */
export async function startThreadedTrainer(source: TrainerSource, signal?: AbortSignal): Promise<Trainer> {
  return (await startTrainerThread(source, signal)).ask;
}

/** The same, for whoever may have to end the thread while it computes. */
export function startTrainerThread(source: TrainerSource, signal?: AbortSignal): Promise<Remote<Trainer>> {
  return startThread(new URL("trainer-worker", import.meta.url), source, signal);
}

/** The same for training on examples. */
export function startTuningThread(source: TuningSource, signal?: AbortSignal): Promise<Remote<TuningTrainer>> {
  return startThread(new URL("tuning-worker", import.meta.url), source, signal);
}

/** The error of calls to a trainer that is gone; `how` is a verb: "was stopped". */
export function trainerLost(how: string): RerollError {
  return new RerollError("TRAINER_BROKEN", `The trainer's thread ${how}.`);
}

async function startThread<Host extends object>(
  module: URL,
  source: unknown,
  signal: AbortSignal | undefined,
): Promise<Remote<Host>> {
  const thread = startInThread<Host>(module, source, { carrier: tensorCarrier, lost: trainerLost });
  signal?.addEventListener("abort", () => void thread.end(trainerLost("was stopped")), { once: true });
  await thread.ready;
  return thread;
}
