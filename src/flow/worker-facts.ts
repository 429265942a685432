/** The workers of a run: where each is, which roles it hosts, and what they hold. Plain data, for the record of a run; nothing computes with it. */

/** A part in a run that a model plays. */
export type RoleName = "trainer" | "reference" | "critic" | "engine" | "reward model";

/** What a role holds in its worker. */
export interface RoleMemory {
  readonly role: RoleName;
  /** Bytes that last from step to step: weights, the state of an optimizer, a cache. */
  readonly bytes: number;
  /** Whether they are in host memory now, away from the device that the role works on. */
  readonly isAsleep: boolean;
}

export interface WorkerMemory {
  readonly roles: readonly RoleMemory[];
  /** The most that its process has had on its device so far, all workers in that process together. null: it does not say. */
  readonly peakBytes: number | null;
}

/** A thread, process, machine or server that works for a run. */
export interface WorkerFacts extends WorkerMemory {
  /** As the timeline calls it: "trainer", "engine 2", "reference". */
  readonly name: string;
  readonly runsIn: "thread" | "process" | "machine" | "server";
  readonly device: string;
}

/** Told when a worker begins and ends something. Several of the same at once count as one stretch. */
export interface WorkLog {
  begin(worker: string, stage: WorkStage): void;
  end(worker: string, stage: WorkStage): void;
}

/** What workers do, as the timeline names it. */
export type WorkStage = "generating" | "scoring" | "measure" | "update" | "sync";

/** Runs an action as a stretch of a worker's time. */
export async function logged<Result>(
  log: WorkLog | undefined,
  worker: string,
  stage: WorkStage,
  action: () => Promise<Result>,
): Promise<Result> {
  log?.begin(worker, stage);
  try {
    return await action();
  } finally {
    log?.end(worker, stage);
  }
}
