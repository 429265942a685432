/** How a rollout is cut into updates. */
import type { RunConfig } from "./run-config.ts";

/** Optimizer updates per rollout step. */
export function updatesPerStep({ rollout, training }: RunConfig, numEpochs: number): number {
  const trajectories = rollout.groupsPerStep * rollout.groupSize;
  const perEpoch = training.minibatch === 0 ? 1 : Math.ceil(trajectories / training.minibatch);
  return perEpoch * numEpochs;
}
