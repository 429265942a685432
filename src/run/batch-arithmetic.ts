/** How a rollout is cut into updates. */
import { numReplays } from "../experience/join-replays.ts";
import { trainedPlayers } from "./player-options.ts";
import type { RunConfig } from "./run-config.ts";

/** What one step trains on, and in how many updates. */
interface StepArithmetic {
  readonly numFresh: number;
  /** Trajectories that are replayed, once there are enough of them: fewer at first, or where one is drawn twice. */
  readonly numReplayed: number;
  /** Optimizer updates of a step that has all of these. */
  readonly numUpdates: number;
}

export function stepArithmetic({ rollout, players, replay, training }: RunConfig, numEpochs: number): StepArithmetic {
  // Every player that is trained has a group of its own.
  const numGroups = rollout.groupsPerStep * Math.max(1, trainedPlayers(players).length);
  const numFresh = numGroups * rollout.groupSize;
  const numReplayed = replay === null ? 0 : numReplays(numGroups, replay.ratio) * rollout.groupSize;
  const perEpoch = training.minibatch === 0 ? 1 : Math.ceil((numFresh + numReplayed) / training.minibatch);
  return { numFresh, numReplayed, numUpdates: perEpoch * numEpochs };
}
