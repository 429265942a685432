/** What the engines of a run are opened from, and what comes of it, whatever kind they are. */
import type { Clock } from "../flow/clock.ts";
import type { WorkerFacts, WorkLog } from "../flow/worker-facts.ts";
import type { Seat } from "../generation/pool/seat.ts";
import type { Trainer } from "../training/trainer.ts";
import type { WeightSync } from "../weight-sync/weight-sync.ts";
import type { Placement } from "./machine.ts";

/** What engines are opened with. */
export interface EngineParts {
  readonly modelFolder: string;
  readonly runFolder: string;
  readonly placement: Placement;
  readonly clock: Clock;
  /** Aborted as soon as the run is asked to stop, also within a step. Absent: nobody asks. */
  readonly asked?: AbortSignal;
  /** Told of engines that are lost and come back. */
  readonly report: (text: string) => void;
  /** Told what each engine does. */
  readonly log: WorkLog;
}

/** How engines get the trainer's weights. */
export interface EngineSync extends WeightSync {
  /** Gives the version that was published last to engines that were opened since. Absent where they load it by themselves. */
  catchUp?(version: number): Promise<void>;
}

/** Engines of one kind: their seats, and how they get weights. */
export interface OpenedEngines {
  /** Where each is, in the order of seats. */
  readonly places: readonly Pick<WorkerFacts, "name" | "runsIn" | "device">[];
  readonly seats: readonly Seat[];
  readonly syncFrom: (trainer: Trainer) => EngineSync;
  /** See RunEngine. */
  rest?(sleeps: boolean): Promise<void>;
  goOn?(): Promise<void>;
  readonly statements: readonly string[];
  /** Frees what the seats themselves do not. */
  close?(): Promise<void>;
}

/** Opens all of them together. Where one fails, those that did open are closed. */
export async function openAll<Opened extends { close(): Promise<void> }>(
  openings: readonly Promise<Opened>[],
): Promise<readonly Opened[]> {
  const settled = await Promise.allSettled(openings);
  const opened = settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const failed = settled.find((one) => one.status === "rejected");
  if (failed === undefined) return opened;
  await Promise.all(opened.map((one) => one.close()));
  throw failed.reason;
}
