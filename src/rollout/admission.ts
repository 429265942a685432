/** Limits how many groups may be on their way, so that nothing is trained on that is older than allowed. */

interface AdmissionCounts {
  /** Groups that have been delivered since the start of the run or are ready. */
  readonly accepted: number;
  readonly running: number;
  /** Groups that a caller is waiting for and that are not ready. */
  readonly wanted: number;
}

export interface Admission {
  /** How many more groups may start. */
  room(counts: AdmissionCounts, version: number): number;
}

/** Starts as many groups as are asked for, and `extraGroups` more, so that the slowest hold nobody up. */
export function admitWanted(extraGroups = 0): Admission {
  return { room: ({ running, wanted }) => (wanted === 0 ? 0 : wanted + extraGroups - running) };
}

/**
 * Starts groups ahead of demand while they can still be trained on in time: with `batchGroups` per training step and the weights of
 * step v, at most (maxStaleness + v + 1) * batchGroups may have been accepted or be running. The last of them is then trained on
 * when maxStaleness + v steps are done.
 */
export function admitByStaleness(maxStaleness: number, batchGroups: number): Admission {
  return {
    room: ({ accepted, running }, version) => (maxStaleness + version + 1) * batchGroups - (accepted + running),
  };
}
