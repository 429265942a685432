/** How many groups may be on their way, so that what is trained on is never older than allowed. */

interface AdmissionCounts {
  /** Groups delivered since the start of the run, and those that are ready. */
  readonly accepted: number;
  readonly running: number;
  /** Groups that somebody waits for now and that are not ready. */
  readonly wanted: number;
}

export interface Admission {
  /** How many more groups may start. */
  room(counts: AdmissionCounts, version: number): number;
}

/** Starts what is asked for, and `extraGroups` beyond it: the slowest groups then hold up nobody. */
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
