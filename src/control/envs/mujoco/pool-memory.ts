/**
 * Communication between a pool and its threads: shared memory for steps, and messages for rare events.
 *
 * A turn: the pool writes the actions or sends every thread a message, sets PENDING to the number of threads and raises TURN; each
 * thread does its part and lowers PENDING; the last one wakes the pool. A thread that fails raises NUM_FAILED and sends the reason.
 */
import type { MessagePort } from "node:worker_threads";
import type { VecStep } from "../vec-env.ts";
import type { MujocoOptions } from "./create-mujoco-env.ts";
import type { SavedCopy } from "./mujoco-copy.ts";

/** Indices into `signals`. */
export const TURN = 0;
export const PENDING = 1;
export const NUM_FAILED = 2;

/** The shared arrays of all copies. */
export interface PoolMemory {
  readonly signals: Int32Array;
  readonly actions_NA: Float32Array;
  readonly step: VecStep;
}

/** The worker data of a thread. */
export interface PoolThreadData {
  readonly options: MujocoOptions;
  readonly memory: PoolMemory;
  /** The copies that live in the thread. */
  readonly firstEnv: number;
  readonly numEnvs: number;
}

/** The port for messages, sent once the thread runs. */
export interface PoolPort {
  readonly port: MessagePort;
}

/** The work of a turn that is not a step. */
export type ToPoolThread =
  | { readonly kind: "reset"; readonly seed: number }
  | { readonly kind: "save" }
  | { readonly kind: "restore"; readonly copies: readonly SavedCopy[] };

/** The answer to `save`, or the reason why a turn failed. */
export type FromPoolThread =
  | { readonly kind: "saved"; readonly copies: readonly SavedCopy[] }
  | { readonly kind: "failed"; readonly reason: string };

/** The part of the arrays that belongs to a range of copies. */
export function rowsOf(step: VecStep, numAll: number, first: number, count: number): VecStep {
  const rows = <Numbers extends Float32Array | Uint8Array>(array: Numbers): Numbers => {
    const size = array.length / numAll;
    return array.subarray(first * size, (first + count) * size) as Numbers;
  };
  return {
    observations_NO: rows(step.observations_NO),
    rewards_N: rows(step.rewards_N),
    ...(step.rewardParts_NG === undefined ? {} : { rewardParts_NG: rows(step.rewardParts_NG) }),
    terminated_N: rows(step.terminated_N),
    truncated_N: rows(step.truncated_N),
    finalObservations_NO: rows(step.finalObservations_NO),
  };
}
