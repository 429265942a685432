/** The clock of a run: milliseconds since 1970 that only grow, whatever is done to the machine's own time meanwhile. */
import type { Clock } from "../flow/clock.ts";

/** Read it anywhere in the process: all readings lie on one axis. */
export const runClock: Clock = () => performance.timeOrigin + performance.now();
