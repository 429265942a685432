import { expect, test } from "vitest";
import { memoryStats, setNumThreads } from "../../torch/memory.ts";
import { Generator } from "../../torch/random.ts";
import { ControlCollector } from "../collector/collector.ts";
import { PolicyActor } from "../collector/policy-actor.ts";
import { runControlLoop } from "../control-loop.ts";
import { createControlEnv } from "../envs/classic/classic-env.ts";
import { ControlPolicy, createCritic } from "../policy/control-policy.ts";
import { adaptedLr } from "./ppo.ts";
import { ControlTrainer, type ControlTrainerOptions } from "./trainer.ts";

// Networks of this size only wait for a second thread.
setNumThreads(1);

const options: ControlTrainerOptions = {
  ...{ gamma: 0.99, lambda: 0.95, clip: 0.2, valueClip: null, entropy: 0.01, normalizeAdvantages: true },
  ...{ epochs: 4, minibatches: 4, maxGradNorm: 0.5, lr: 1e-3, criticLr: 1e-3, normalizeRewards: false, seed: 1 },
  schedule: { type: "constant" },
};

function setUp(
  changes: Partial<ControlTrainerOptions> = {},
  { seed = 1, type = "cart-pole" as "cart-pole" | "pendulum" } = {},
) {
  const env = createControlEnv({ type, numEnvs: 4 });
  const { observationSize, actions } = env;
  const generator = new Generator(seed);
  const network = { hidden: [32], activation: "tanh", generator } as const;
  const policy = new ControlPolicy({ ...network, observationSize, actions, normalizeObservations: true });
  const critic = createCritic(observationSize, 1, network);
  const actor = new PolicyActor(policy, { numEnvs: 4, observationSize, seed });
  const collector = new ControlCollector(env, actor, { seed });
  return { policy, critic, collector, trainer: new ControlTrainer(policy, critic, { ...options, ...changes }) };
}

function valuesOf({ policy, critic }: ReturnType<typeof setUp>): number[] {
  return [...policy.parameters(), ...critic.parameters()].flatMap((parameter) => parameter.toArray());
}

test("the return of CartPole rises within a few thousand steps of the loop", async () => {
  const { collector, trainer } = setUp();
  const returns: number[] = [];
  const position = await runControlLoop(
    {
      collect: async (numTicks, version) => collector.collect(numTicks, version),
      train: async (rollout) => {
        returns.push(...rollout.episodes.map((episode) => episode.return));
        return trainer.step(rollout).metrics;
      },
      observer: { onStep: async () => "continue" },
    },
    { step: 0, version: 0 },
    { numSteps: 30, ticksPerStep: 128 },
  );
  expect(position).toEqual({ step: 30, version: 30 });
  const meanOf = (some: readonly number[]) => some.reduce((sum, value) => sum + value, 0) / some.length;
  expect(meanOf(returns.slice(0, 20))).toBeLessThan(40);
  expect(meanOf(returns.slice(-20))).toBeGreaterThan(100);
});

test("one seed gives one run, to the bit, and another seed another", () => {
  const run = (seed: number) => {
    const parts = setUp({ seed, normalizeRewards: true }, { seed, type: "pendulum" });
    for (let step = 0; step < 3; step++) parts.trainer.step(parts.collector.collect(32, step));
    return valuesOf(parts);
  };
  expect(run(1)).toEqual(run(1));
  expect(run(1)).not.toEqual(run(2));
});

test("statistics of observations move after the updates, so the first ratio of a step is one", () => {
  const { policy, collector, trainer } = setUp({ epochs: 1, minibatches: 1, normalizeAdvantages: false });
  for (let step = 0; step < 3; step++) {
    const rollout = collector.collect(64, step);
    const before = policy.normalizer!.mean_O.toArray();
    const { metrics } = trainer.step(rollout);
    // Of the one update, before it was made: 0 up to the rounding of log-probabilities.
    expect(Math.abs(metrics["policy/approx_kl"]!)).toBeLessThan(1e-6);
    expect(policy.normalizer!.mean_O.toArray()).not.toEqual(before);
  }
});

test("the linear schedule falls to nothing at the last step", () => {
  const { collector, trainer } = setUp({ schedule: { type: "linear", numSteps: 4 } });
  const rates = [0, 1, 2, 3].map((step) => trainer.step(collector.collect(8, step)).metrics["train/lr"]);
  expect(rates).toEqual([1e-3, 0.75e-3, 0.5e-3, 0.25e-3]);
});

test("the schedule by KL slows a policy that moves too far and leaves the critic alone", () => {
  const { collector, trainer } = setUp({ schedule: { type: "kl", targetKl: 1e-9 } });
  const { metrics } = trainer.step(collector.collect(32, 0));
  // 16 updates, the first without any KL: 15 steps down, of 1.5 each, end at the bound.
  expect(metrics["train/lr"]).toBe(1e-5);
  expect(trainer.criticOptimizer.groups[0]!.lr).toBe(1e-3);
  const eager = setUp({ schedule: { type: "kl", targetKl: 1e3 } });
  expect(eager.trainer.step(eager.collector.collect(32, 0)).metrics["train/lr"]).toBeCloseTo(1e-2, 10);
});

test("a learning rate goes down above twice the target, up below half of it, and stays between", () => {
  expect(adaptedLr(3e-4, 0.021, 0.01)).toBeCloseTo(2e-4, 10);
  expect(adaptedLr(3e-4, 0.004, 0.01)).toBeCloseTo(4.5e-4, 10);
  expect(adaptedLr(3e-4, 0.02, 0.01)).toBe(3e-4);
  expect(adaptedLr(9e-3, 0, 0.01)).toBe(1e-2);
  expect(adaptedLr(1.2e-5, 1, 0.01)).toBe(1e-5);
});

test("the first update of a step, before which nothing has moved, leaves the learning rate as it is", () => {
  const { collector, trainer } = setUp({
    lr: 1e-6,
    epochs: 1,
    minibatches: 2,
    schedule: { type: "kl", targetKl: 0.01 },
  });
  for (let step = 0; step < 6; step++) trainer.step(collector.collect(128, step));
  // The second update of each step finds the policy all but where it was.
  expect(trainer.policyOptimizer.groups[0]!.lr).toBeCloseTo(1e-6 * 1.5 ** 6, 12);
});

test("a critic with a rate of its own learns at that rate", () => {
  const { trainer } = setUp({ criticLr: 5e-4 });
  expect(trainer.policyOptimizer.groups[0]!.lr).toBe(1e-3);
  expect(trainer.criticOptimizer.groups[0]!.lr).toBe(5e-4);
});

test("live tensors and bytes are the same after every step", () => {
  const { collector, trainer } = setUp({ normalizeRewards: true });
  const measure = (step: number) => {
    trainer.step(collector.collect(16, step));
    const { liveTensors, liveBytes } = memoryStats();
    return { liveTensors, liveBytes };
  };
  measure(0);
  const second = measure(1);
  for (let step = 2; step < 6; step++) expect(measure(step)).toEqual(second);
});
