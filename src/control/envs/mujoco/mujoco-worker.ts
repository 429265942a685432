/**
 * A thread of a MuJoCo pool: steps its share of the copies whenever the pool takes a turn, and sleeps in between.
 *
 * In: `PoolThreadData` as worker data, then a `PoolPort`. Out: one message once it is ready; after that only shared memory, and
 * `FromPoolThread`. It runs until it is terminated.
 */
import { once } from "node:events";
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { invariant } from "../../../errors/reroll-error.ts";
import { buildTask } from "./create-mujoco-env.ts";
import { loadMujoco } from "./load-mujoco.ts";
import { MujocoEnv } from "./mujoco-env.ts";
import {
  type FromPoolThread,
  NUM_FAILED,
  PENDING,
  type PoolPort,
  type PoolThreadData,
  rowsOf,
  type ToPoolThread,
  TURN,
} from "./pool-memory.ts";

const { options, memory, firstEnv, numEnvs } = workerData as PoolThreadData;
const { signals, actions_NA, step } = memory;
invariant(parentPort !== null, "mujoco-worker runs in a thread");
const [{ port }] = (await once(parentPort, "message")) as [PoolPort];
const env = new MujocoEnv(await loadMujoco(), buildTask(options), {
  numEnvs,
  firstEnv,
  step: rowsOf(step, step.rewards_N.length, firstEnv, numEnvs),
});
const { size } = env.actions;
const actions = actions_NA.subarray(firstEnv * size, (firstEnv + numEnvs) * size);
parentPort.postMessage("ready");
for (let turn = 0; ; turn++) {
  Atomics.wait(signals, TURN, turn);
  try {
    takeTurn(port);
  } catch (error) {
    post(port, { kind: "failed", reason: error instanceof Error ? error.message : String(error) });
    Atomics.add(signals, NUM_FAILED, 1);
  }
  if (Atomics.sub(signals, PENDING, 1) === 1) Atomics.notify(signals, PENDING);
}

function takeTurn(port: MessagePort): void {
  const message: ToPoolThread | undefined = receiveMessageOnPort(port)?.message;
  switch (message?.kind) {
    case undefined:
      env.step(actions);
      break;
    case "reset":
      env.reset(message.seed);
      break;
    case "save":
      post(port, { kind: "saved", copies: env.save() });
      break;
    case "restore":
      env.restore(message.copies);
      break;
  }
}

function post(port: MessagePort, message: FromPoolThread): void {
  port.postMessage(message);
}
