/** The owner's side: starts a process whose module hosts an object with `hostInProcess`. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Heartbeat } from "./frames.ts";
import { ownModule } from "./own-module.ts";
import { LIFE_STDIO } from "./process-life.ts";
import { childTransport } from "./process-transport.ts";
import { Remote } from "./remote.ts";
import type { StartInThreadOptions } from "./start-in-thread.ts";

/** How a process is started: as a thread is, with variables of its environment beside those of this process. */
type StartInProcessOptions = Pick<StartInThreadOptions, "lost" | "wrap" | "carrier"> & {
  readonly env?: Readonly<Record<string, string>>;
  /** After how much silence the process is taken for hung, and ended. */
  readonly heartbeat?: Heartbeat;
};

/**
 * Starts at once; `ready` says when the object is there. The process ends with this one.
 *
 * @param module the worker's module without its ending: `new URL("engine-worker", import.meta.url)`
 * @param source what the object is built from; plain data
 */
export function startInProcess<Host extends object>(
  module: URL,
  source: unknown,
  { lost, carrier, wrap = (line) => line, env = {}, heartbeat }: StartInProcessOptions,
): Remote<Host> {
  const file = fileURLToPath(ownModule(module));
  const child = fork(file, {
    execArgv: file.endsWith(".ts") ? ["--import", import.meta.resolve("tsx")] : [],
    serialization: "advanced",
    stdio: [...LIFE_STDIO],
    env: { ...process.env, ...env },
  });
  const transport = childTransport(child, heartbeat);
  transport.post(source);
  const line = wrap(transport);
  return new Remote(line, { lost, ...(carrier !== undefined && { carrier }) });
}
