import { expect, test } from "vitest";
import { checkVecEnv } from "./check-vec-env.ts";
import { createControlEnv } from "./classic/classic-env.ts";
import type { VecEnv, VecStep } from "./vec-env.ts";

/** A good environment with one thing changed. */
function broken(
  change: (step: VecStep, actions_NA: Float32Array) => VecStep,
  fields: Partial<VecEnv> = {},
): () => VecEnv {
  return () => {
    const env = createControlEnv({ type: "cart-pole", numEnvs: 2 });
    return {
      numEnvs: 2,
      observationSize: 4,
      actions: env.actions,
      reset: (seed) => env.reset(seed),
      step: (actions_NA) => change(env.step(actions_NA), actions_NA),
      ...fields,
    };
  };
}

async function rules(makeEnv: () => VecEnv): Promise<string[]> {
  return (await checkVecEnv(makeEnv, { numSteps: 100 })).map(({ rule }) => rule);
}

test("a good environment has no findings", async () => {
  expect(await rules(broken((step) => step))).toEqual([]);
});

test("each broken promise is found by its rule", async () => {
  let calls = 0;
  expect(await rules(broken((step) => ({ ...step, rewards_N: Float32Array.of(1) })))).toEqual(["shapes"]);
  expect(await rules(broken((step) => ({ ...step, rewards_N: Float32Array.of(1, Number.NaN) })))).toEqual(["finite"]);
  expect(await rules(broken((step) => ({ ...step, rewards_N: Float32Array.of(calls++, 1) })))).toEqual([
    "deterministic",
  ]);
  expect(await rules(broken((step) => ({ ...step, truncated_N: Uint8Array.of(0, 2) })))).toContain("flags");
  expect(await rules(broken((step) => ({ ...step, observations_NO: step.finalObservations_NO })))).toContain(
    "autoreset",
  );
  const scribble = (step: VecStep, actions_NA: Float32Array) => {
    actions_NA.fill(7);
    return step;
  };
  expect(await rules(broken(scribble))).toEqual(["actions"]);
  expect(
    await rules(broken((step) => ({ ...step, terminated_N: new Uint8Array(2), truncated_N: new Uint8Array(2) }))),
  ).toEqual(["ends"]);
  expect(await rules(broken((step) => step, { actions: { kind: "discrete", count: 0 } }))).toEqual(["sizes"]);
  expect(
    await rules(
      broken(() => {
        throw new Error("stuck");
      }),
    ),
  ).toEqual(["throws"]);
});

test("a finding says what is wrong with numbers", async () => {
  const [finding] = await checkVecEnv(
    broken((step) => ({ ...step, rewards_N: Float32Array.of(1) })),
    { numSteps: 1 },
  );
  expect(finding!.text).toBe("rewards_N has 1 values. It must have 2.");
});

test("what is saved must be all that the next steps depend on", async () => {
  // The state without the streams that the next starts are drawn from.
  const forgetful = (): VecEnv => {
    const env = createControlEnv({ type: "cart-pole", numEnvs: 2 });
    const saveAll = () => env.save?.() as object;
    return {
      ...{ numEnvs: 2, observationSize: 4, actions: env.actions },
      reset: (seed) => env.reset(seed),
      step: (actions_NA) => env.step(actions_NA),
      save: () => ({ ...saveAll(), randoms: [1, 2].map((n) => [n, n, n, n]) }),
      restore: (saved) => env.restore?.(saved),
    };
  };
  expect(await rules(forgetful)).toEqual(["save"]);
  expect(await rules(broken((step) => step, { save: () => null }))).toEqual(["save"]);
  expect(await rules(() => createControlEnv({ type: "cart-pole", numEnvs: 2 }))).toEqual([]);
});

test("the parts of a reward must sum to it, and groups of observations lie within them", async () => {
  const parts = (values: readonly number[]) => (step: VecStep) => ({
    ...step,
    rewardParts_NG: Float32Array.from(values),
  });
  const groups = { rewardGroups: ["up", "near"] };
  expect(await rules(broken(parts([1, 0, 0.5, 0.5]), groups))).toEqual([]);
  expect(await rules(broken(parts([1, 0, 0.5, 0.7]), groups))).toEqual(["rewards"]);
  expect(await rules(broken(parts([1, 0]), groups))).toEqual(["rewards"]);
  const far = { observationGroups: { priv: { start: 2, size: 3 } } };
  expect(await rules(broken((step) => step, far))).toEqual(["sizes"]);
});
