/** A view of vector environments that leaves out one group of the observation. */
import type { VecEnv, VecStep } from "../src/control/envs/vec-env.ts";

/** Steps the environments given; observations have the columns of the other groups, in their order. */
export function withoutGroup(env: VecEnv, group: string): VecEnv {
  const left = env.observationGroups?.[group];
  if (left === undefined) throw new Error(`The environment has no observation group "${group}".`);
  const columns = Array.from({ length: env.observationSize }, (_, o) => o).filter(
    (o) => o < left.start || o >= left.start + left.size,
  );
  const narrow = (rows_NO: Float32Array) =>
    Float32Array.from({ length: env.numEnvs * columns.length }, (_, i) => {
      const n = Math.floor(i / columns.length);
      return rows_NO[n * env.observationSize + columns[i % columns.length]!]!;
    });
  const step = (actions_NA: Float32Array): VecStep => {
    const full = env.step(actions_NA);
    return {
      ...full,
      observations_NO: narrow(full.observations_NO),
      finalObservations_NO: narrow(full.finalObservations_NO),
    };
  };
  const { numEnvs, actions, rewardGroups } = env;
  return {
    ...{ numEnvs, actions, observationSize: columns.length },
    ...(rewardGroups && { rewardGroups }),
    reset: (seed) => ({ observations_NO: narrow(env.reset(seed).observations_NO) }),
    step,
    close: async () => env.close?.(),
  };
}
