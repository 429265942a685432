/** The clock of a run: milliseconds since 1970 that only grow, whatever is done to the machine's own time meanwhile. */
import type { Clock } from "../flow/clock.ts";

export const runClock: Clock = () => performance.timeOrigin + performance.now();
