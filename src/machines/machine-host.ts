/**
 * What a worker offers its controller: a place where modules of reroll run, each in a thread, so that the process itself always answers.
 *
 * Messages to and from a thread are passed on as they are. When a thread ends, the controller is told how; when the controller is gone, so
 * are the threads.
 */
import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { setTimeout } from "node:timers/promises";
import { RerollError } from "../errors/reroll-error.ts";
import { startWorker } from "../workers/start-worker.ts";
import { threadTransport } from "../workers/thread-transport.ts";
import type { Transport } from "../workers/transport.ts";

/** A folder of the controller, and a file in it that only those who share the folder can know. */
interface SharedFolder {
  readonly folder: string;
  readonly file: string;
  readonly text: string;
}

/** A machine, as its controller calls it. */
export interface MachineHost {
  /** Works in the folder that the controller works in. Throws where a folder of the run is not the same here. */
  enter(workingFolder: string, shared: SharedFolder, folders: readonly string[]): Promise<void>;
  /** Starts a module under a number; resolves with how it ended. `hear` is told what it says. */
  host(number: number, module: string, source: unknown, hear: (message: unknown) => void): Promise<string>;
  /** Passes a message on to it. */
  post(number: number, message: unknown): void;
  /** Ends it, whatever it is doing. */
  stop(number: number): Promise<void>;
  /** The run is over. */
  close(): Promise<void>;
}

/** Modules that a controller may start, by their paths in this package without the ending. */
const MODULES = ["training/trainer-worker", "training/tuning-worker"];

const ROOT = new URL("../", import.meta.url);

/** The name of a module on every machine. */
export function moduleName(module: URL): string {
  return module.href.slice(ROOT.href.length);
}

export class ThreadingHost implements MachineHost {
  readonly #threads = new Map<number, Transport>();
  /** Whether the controller has said that the run is over. */
  isDone = false;

  async enter(workingFolder: string, { folder, file, text }: SharedFolder, folders: readonly string[]): Promise<void> {
    const missing = [workingFolder, folder, ...folders].find((path) => !existsSync(path));
    if (missing !== undefined) throw notShared(missing, "does not exist");
    if (!(await holds(file, text))) throw notShared(folder, "is another folder");
    process.chdir(workingFolder);
  }

  host(number: number, module: string, source: unknown, hear: (message: unknown) => void): Promise<string> {
    if (!MODULES.includes(module))
      throw new RerollError("INTERNAL", `internal: a controller may not start ${JSON.stringify(module)} here`);
    const thread = threadTransport(startWorker(new URL(module, ROOT), source));
    this.#threads.set(number, thread);
    thread.onMessage(hear);
    return new Promise((resolve) => {
      thread.onEnd((how) => {
        this.#threads.delete(number);
        resolve(how);
      });
    });
  }

  post(number: number, message: unknown): void {
    this.#threads.get(number)?.post(message);
  }

  async stop(number: number): Promise<void> {
    await this.#threads.get(number)?.close();
  }

  async close(): Promise<void> {
    this.isDone = true;
  }
}

/** Folders on a network show a new file after a moment. */
async function holds(file: string, text: string): Promise<boolean> {
  for (let look = 0; look < NUM_LOOKS; look++) {
    if (existsSync(file)) return readFileSync(file, "utf8") === text;
    await setTimeout(LOOK_AGAIN_MS);
  }
  return false;
}

const NUM_LOOKS = 25;
const LOOK_AGAIN_MS = 200;

function notShared(folder: string, how: string): RerollError {
  return new RerollError(
    "FOLDER_NOT_SHARED",
    `${folder} ${how} on the machine ${hostname()}. Ranks read the model and checkpoints from the same paths: put the run, its model and ` +
      "the folder that it is started in on storage that all machines share.",
    { folder },
  );
}
