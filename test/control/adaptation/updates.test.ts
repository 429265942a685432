import { expect, test } from "vitest";
import type { AdaptModuleKind } from "../../../src/control/adaptation/policy/adapt-module.ts";
import { noGrad } from "../../../src/torch/autograd.ts";
import { memoryStats } from "../../../src/torch/memory.ts";
import { buildParts, type PartsOptions } from "./adaptation-parts.ts";

const once = { policyEpochs: 1, policyMinibatches: 1, adaptEpochs: 0 };

const kinds: readonly AdaptModuleKind[] = [{ type: "gru" }, { type: "mlp", history: 1 }, { type: "mlp", history: 3 }];
const cases = kinds.flatMap((kind) => (["train", "finetune"] as const).map((phase) => [phase, kind] as const));

test.each(cases)("in %s with %j the first update sees the policy that acted, memory and all", (phase, adaptModule) => {
  const trainer = { ...once, adaptEpochs: 1 };
  const parts = buildParts({ phase, adaptModule, trainer });
  // Thirty ticks and more: episodes have ended, others go on with what was remembered in the rollout before.
  parts.collector.collect(13, 0);
  const { metrics } = parts.trainer.step(parts.collector.collect(17, 0));
  expect(Math.abs(metrics["policy/anchor_kl"]!)).toBeLessThan(1e-6);
  expect(metrics["policy/kl"]).toBe(0);
  expect(metrics["student/latent_error"]).toBeGreaterThan(0);
});

test("a student whose memory is lost would not be the one that acted", () => {
  const { collector, trainer } = buildParts({ phase: "finetune", trainer: once });
  collector.collect(13, 0);
  const rollout = collector.collect(17, 0);
  const { metrics } = trainer.step({ ...rollout, carry_NC: rollout.carry_NC.map((value) => -value) });
  expect(Math.abs(metrics["policy/anchor_kl"]!)).toBeGreaterThan(1e-6);
});

test.each([
  ["train", 2, 3],
  ["finetune", 6, 7],
] as const)("in %s the first %d ticks of an episode count for no loss of PPO", (phase, skipped, counted) => {
  const changed = (numTicks: number) => {
    const { policy, collector, trainer } = buildParts({ phase, isStaggered: false, trainer: once });
    const own = phase === "train" ? policy.actor : policy.actorAdapt;
    const read = () =>
      [own, policy.critic].map((module) => module.parameters().map((parameter) => parameter.toArray()));
    const before = read();
    trainer.step(collector.collect(numTicks, 0));
    const after = read();
    return after.map((values, i) => JSON.stringify(values) !== JSON.stringify(before[i]));
  };
  expect(changed(skipped)).toEqual([false, false]);
  expect(changed(counted)).toEqual([true, true]);
});

const lrAfter = (options: NonNullable<PartsOptions["trainer"]>) => {
  const { collector, trainer } = buildParts({ trainer: { policyEpochs: 1, policyMinibatches: 2, ...options } });
  trainer.step(collector.collect(10, 0));
  const { teacher, critic } = trainer.optimizers;
  expect(critic.groups[0]!.lr).toBe(options.lr ?? 1e-3);
  return teacher.groups[0]!.lr;
};

test("the policy's learning rate follows the KL from the second update on, within bounds", () => {
  expect(lrAfter({ targetKl: 1e9 })).toBeCloseTo(1.5e-3, 12);
  expect(lrAfter({ targetKl: 1e-12 })).toBeCloseTo(1e-3 / 1.5, 12);
  expect(lrAfter({ targetKl: null })).toBe(1e-3);
  expect(lrAfter({ targetKl: 1e9, lr: 9e-3 })).toBe(1e-2);
  expect(lrAfter({ targetKl: 1e-12, lr: 1.2e-5 })).toBe(1e-5);
});

test("a student learns its teacher's latents and actions", () => {
  for (const imitateOn of ["encoded", "predicted"] as const) {
    const { policy, collector, trainer } = buildParts({ phase: "adapt", numEnvs: 8, trainer: { imitateOn } });
    // At the start all actions are near 0, and so is their distance.
    noGrad(() => policy.actor.network.head.weight.mul_(100));
    const rollout = collector.collect(20, 0);
    const first = trainer.step(rollout).metrics;
    for (let step = 0; step < 8; step++) trainer.step(rollout);
    const last = trainer.step(rollout).metrics;
    expect(last["student/latent_error"]).toBeLessThan(first["student/latent_error"]! / 1.5);
    expect(last["student/action_error"]).toBeLessThan(first["student/action_error"]! / 2);
  }
});

test("iterations leave no tensors behind", () => {
  const { collector, trainer } = buildParts();
  const iterate = () => {
    trainer.step(collector.collect(8, 0));
    return memoryStats().liveBytes;
  };
  iterate();
  const afterFirst = iterate();
  for (let step = 0; step < 4; step++) iterate();
  expect(iterate()).toBe(afterFirst);
});
