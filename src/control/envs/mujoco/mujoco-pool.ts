/**
 * MuJoCo environments spread over worker threads.
 *
 * In: options and a number of threads. Out: a `VecEnv` whose copies play exactly what they would play in one thread. `step` blocks
 * until the threads are done, so call it from a worker thread if the event loop must stay free. A thread that fails, or that
 * is not done after `timeoutMs`, breaks the pool: this call and all later ones throw.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort, type Worker } from "node:worker_threads";
import { RerollError } from "../../../errors/reroll-error.ts";
import { startWorker } from "../../../workers/start-worker.ts";
import type { VecEnv, VecObservation, VecStep } from "../vec-env.ts";
import type { MujocoOptions } from "./create-mujoco-env.ts";
import type { SavedCopy } from "./mujoco-copy.ts";
import { createVecStep, expectActions, notReset, readSaved } from "./mujoco-env.ts";
import type { MujocoTask } from "./mujoco-task.ts";
import {
  type FromPoolThread,
  NUM_FAILED,
  PENDING,
  type PoolMemory,
  type PoolPort,
  type PoolThreadData,
  type ToPoolThread,
  TURN,
} from "./pool-memory.ts";

/** The number of threads, and how long they may take. */
interface MujocoPoolOptions {
  readonly numEnvs: number;
  /** At most the number of copies. */
  readonly numThreads: number;
  /** How long a turn may take. Default 60,000: only a thread that has died takes that long. */
  readonly timeoutMs?: number;
  /** Starts a thread. Default: one that runs `mujoco-worker`. */
  readonly startThread?: (data: PoolThreadData) => Worker;
}

/** A thread and the copies that live in it. */
interface PoolThread {
  readonly worker: Worker;
  readonly port: MessagePort;
  readonly firstEnv: number;
  readonly numEnvs: number;
}

/** Starts the threads and waits until all of them have loaded MuJoCo. The threads build `task` again from `envOptions`. */
export async function openMujocoPool(
  envOptions: MujocoOptions,
  task: MujocoTask,
  { numEnvs, numThreads, timeoutMs = 60_000, startThread = startMujocoThread }: MujocoPoolOptions,
): Promise<MujocoPool> {
  const memory: PoolMemory = {
    signals: new Int32Array(new SharedArrayBuffer(12)),
    actions_NA: new Float32Array(new SharedArrayBuffer(4 * numEnvs * task.actions.size)),
    step: createVecStep(task, numEnvs, SharedArrayBuffer),
  };
  const count = Math.min(numThreads, numEnvs);
  const firsts = Array.from({ length: count + 1 }, (_, i) => Math.floor((i * numEnvs) / count));
  const threads = firsts.slice(0, -1).map((firstEnv, i): PoolThread => {
    const data: PoolThreadData = { options: envOptions, memory, firstEnv, numEnvs: firsts[i + 1]! - firstEnv };
    const worker = startThread(data);
    const { port1, port2 } = new MessageChannel();
    const message: PoolPort = { port: port2 };
    worker.postMessage(message, [port2]);
    return { worker, port: port1, firstEnv, numEnvs: data.numEnvs };
  });
  const pool = new MujocoPool(task, memory, threads, timeoutMs);
  try {
    await Promise.all(threads.map(({ worker }) => untilReady(worker)));
  } catch (error) {
    await pool.close();
    throw error;
  }
  return pool;
}

/** A vector environment of MuJoCo copies in worker threads. */
export class MujocoPool implements VecEnv {
  readonly numEnvs: number;
  readonly observationSize: number;
  readonly actions: MujocoTask["actions"];
  declare readonly observationGroups?: NonNullable<VecEnv["observationGroups"]>;
  declare readonly rewardGroups?: readonly string[];
  readonly #memory: PoolMemory;
  readonly #threads: readonly PoolThread[];
  readonly #timeoutMs: number;
  #isRunning = false;
  #end: RerollError | null = null;

  constructor(task: MujocoTask, memory: PoolMemory, threads: readonly PoolThread[], timeoutMs: number) {
    this.numEnvs = memory.step.rewards_N.length;
    this.observationSize = task.observationSize;
    this.actions = task.actions;
    if (task.observationGroups !== undefined) this.observationGroups = task.observationGroups;
    if (task.rewardGroups !== undefined) this.rewardGroups = task.rewardGroups;
    this.#memory = memory;
    this.#threads = threads;
    this.#timeoutMs = timeoutMs;
    for (const [i, { worker }] of threads.entries()) {
      worker.on("error", (error) => this.#breakDown(`thread ${i} crashed: ${error.message}`));
      worker.on("exit", (code) => this.#breakDown(`thread ${i} ended with code ${code}`));
    }
  }

  reset(seed: number): VecObservation {
    this.#takeTurn(() => ({ kind: "reset", seed }));
    this.#isRunning = true;
    return this.#memory.step;
  }

  step(actions_NA: Float32Array): VecStep {
    if (!this.#isRunning) throw notReset();
    expectActions(actions_NA, this.numEnvs, this.actions.size);
    this.#memory.actions_NA.set(actions_NA);
    this.#takeTurn();
    return this.#memory.step;
  }

  save(): SavedCopy[] {
    this.#takeTurn(() => ({ kind: "save" }));
    return this.#threads.flatMap(({ port }) => {
      const answer = receive(port);
      return answer?.kind === "saved" ? answer.copies : [];
    });
  }

  restore(saved: unknown): void {
    const copies = readSaved(saved, this.numEnvs);
    this.#takeTurn(({ firstEnv, numEnvs }) => ({
      kind: "restore",
      copies: copies.slice(firstEnv, firstEnv + numEnvs),
    }));
    this.#isRunning = true;
  }

  /** Ends the threads. */
  async close(): Promise<void> {
    this.#breakDown("it was closed");
    await Promise.all(this.#threads.map(({ worker }) => worker.terminate()));
  }

  /** Wakes all threads for a step, or for the work in a message, and waits until they are done. */
  #takeTurn(messageFor?: (thread: PoolThread) => ToPoolThread): void {
    if (this.#end !== null) throw this.#end;
    const { signals } = this.#memory;
    if (messageFor !== undefined) for (const thread of this.#threads) thread.port.postMessage(messageFor(thread));
    Atomics.store(signals, PENDING, this.#threads.length);
    Atomics.add(signals, TURN, 1);
    Atomics.notify(signals, TURN);
    for (let left = this.#threads.length; left > 0; left = Atomics.load(signals, PENDING)) {
      if (Atomics.wait(signals, PENDING, left, this.#timeoutMs) !== "timed-out") continue;
      throw this.#breakDown(`${left} of ${this.#threads.length} threads did not answer within ${this.#timeoutMs} ms`);
    }
    if (Atomics.load(signals, NUM_FAILED) > 0) throw this.#breakDown(this.#reasonOfFailure());
  }

  #reasonOfFailure(): string {
    const answers = this.#threads.map(({ port }) => receive(port));
    const at = answers.findIndex((answer) => answer?.kind === "failed");
    const answer = answers[at];
    return `thread ${at} failed: ${answer?.kind === "failed" ? answer.reason : "it gave no reason"}`;
  }

  /** Keeps the first reason. */
  #breakDown(reason: string): RerollError {
    this.#end ??= new RerollError(
      "ENV_THREAD_LOST",
      `The pool of MuJoCo environments is gone: ${reason}. Create it again; save() keeps the state of a pool that works.`,
    );
    return this.#end;
  }
}

/** Starts a thread of the pool. */
export function startMujocoThread(data: PoolThreadData): Worker {
  return startWorker(new URL("mujoco-worker", import.meta.url), data);
}

/** Resolves at the thread's first message. From then on the thread does not keep the process alive. */
function untilReady(worker: Worker): Promise<void> {
  return new Promise((resolve, reject) => {
    worker.once("message", () => {
      worker.unref();
      resolve();
    });
    worker.once("error", reject);
    worker.once("exit", (code) =>
      reject(
        new RerollError("ENV_THREAD_LOST", `A thread of MuJoCo environments ended with code ${code} at its start.`),
      ),
    );
  });
}

function receive(port: MessagePort): FromPoolThread | undefined {
  return receiveMessageOnPort(port)?.message;
}
