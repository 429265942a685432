/** The life of a sample, as the scheduler tells it while it goes on. */

/** What a sample waits for while its episode runs. `held`: for the gate, in the middle of a reply or before it. */
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
  /** On the clock of the run, in milliseconds. */
  readonly atMs: number;
}
