/** Signals as any thread can see them, also while the main thread is too busy to. Loaded when first asked for. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { addonMissing, findAddon } from "../torch/find-addon.ts";

/** What `signals.node` offers. Its count is that of the process, whichever thread asks. */
interface Signals {
  /** Counts SIGINT, SIGTERM and SIGHUP from now on, for as long as Node listens for them. */
  watch(): void;
  /** The number of the last one; 0 where none has come. */
  last(): number;
  numSeen(): number;
  /** Ends the process at once, without asking any thread. */
  exit(code: number): never;
}

export function loadSignals(): Signals {
  const folder = findAddon();
  if (folder === null) throw addonMissing();
  return createRequire(import.meta.url)(join(folder, "signals.node")) as Signals;
}
