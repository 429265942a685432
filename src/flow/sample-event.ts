/** The life of a sample, as the scheduler tells it while it goes on. */

/**
 * The stage of a sample while its episode runs. `held` means waiting for the gate, before a reply or in the middle of
 * one.
 */
export type EpisodeStage = "generating" | "held" | "environment" | "scoring";

/** Every stage of a sample, from the queue to where it ends. */
export type SampleStage =
  | "queued"
  | EpisodeStage
  | "complete"
  | "failed"
  | "aborted"
  | "filtered"
  | "stale"
  | "delivered";

/** A sample entered a stage. */
export interface SampleEvent {
  readonly sampleId: string;
  readonly stage: SampleStage;
  /** When it did, in milliseconds on the clock of the run. */
  readonly atMs: number;
}
