import { describe, expect, test } from "vitest";
import { AdaptationActor } from "../../../src/control/adaptation/actor.ts";
import type { AdaptationPolicy } from "../../../src/control/adaptation/policy/adaptation-policy.ts";
import type { AdaptationPhase } from "../../../src/control/adaptation/policy/phases.ts";
import { noGrad } from "../../../src/torch/autograd.ts";
import { tensorScope } from "../../../src/torch/scope.ts";
import { buildParts as buildLongParts, type PartsOptions } from "./adaptation-parts.ts";

/** One pass each is enough to see who learns. */
const buildParts = ({ trainer, ...options }: PartsOptions = {}) =>
  buildLongParts({ ...options, trainer: { policyEpochs: 1, adaptEpochs: 1, ...trainer } });

const modules = ["encoderPriv", "actor", "actorAdapt", "adaptModule", "adaptEma", "critic", "normalizer"] as const;
type ModuleName = (typeof modules)[number];

interface PhaseFacts {
  /** Whose weights decide the actions, beside the normalizer. */
  readonly acts: readonly ModuleName[];
  /** Whose weights change in a training step. */
  readonly changes: readonly ModuleName[];
  /** Whose weights a training step does not read at all. */
  readonly ignores: readonly ModuleName[];
}

const facts: Readonly<Record<AdaptationPhase, PhaseFacts>> = {
  train: {
    acts: ["encoderPriv", "actor"],
    changes: ["encoderPriv", "actor", "actorAdapt", "adaptModule", "adaptEma", "critic", "normalizer"],
    ignores: [],
  },
  adapt: {
    acts: ["actorAdapt", "adaptModule"],
    changes: ["actorAdapt", "adaptModule", "adaptEma"],
    ignores: ["critic"],
  },
  finetune: {
    acts: ["actorAdapt", "adaptEma"],
    changes: ["actorAdapt", "adaptModule", "adaptEma", "critic"],
    ignores: ["actor"],
  },
};

const phases = Object.entries(facts) as [AdaptationPhase, PhaseFacts][];

function poison(policy: AdaptationPolicy, name: ModuleName): void {
  noGrad(() => {
    for (const parameter of policy[name].parameters()) parameter.fill_(Number.NaN);
  });
}

/** The weights of every module as one string of bytes. */
function bytesOf(policy: AdaptationPolicy): Record<ModuleName, string> {
  const bytes = (name: ModuleName) =>
    policy[name]
      .parameters()
      .map((parameter) => Buffer.from(parameter.detach().to("float64").toTypedArray().buffer).toString("base64"))
      .join();
  return Object.fromEntries(modules.map((name) => [name, bytes(name)])) as Record<ModuleName, string>;
}

describe.each(phases)("phase %s", (phase, { acts, changes, ignores }) => {
  test("acting reads the weights of those who act and of nobody else", () => {
    for (const name of modules.filter((other) => other !== "normalizer")) {
      const { policy, env, actor } = buildParts({ phase });
      poison(policy, name);
      const observations_NO = Float32Array.from(env.reset(1).observations_NO);
      const isFirst_N = new Uint8Array(env.numEnvs);
      const { actions_NA } = noGrad(() => tensorScope(() => actor.act(observations_NO, isFirst_N)));
      expect({ name, isFinite: actions_NA.every(Number.isFinite) }).toEqual({ name, isFinite: !acts.includes(name) });
    }
  });

  test("a rollout changes no weight", () => {
    const { policy, collector } = buildParts({ phase });
    const before = bytesOf(policy);
    collector.collect(5, 0);
    expect(bytesOf(policy)).toEqual(before);
  });

  test("a training step changes the weights it should and no others", () => {
    const { policy, collector, trainer } = buildParts({ phase });
    // A step at first, so that the slow copy has something to follow.
    trainer.step(collector.collect(10, 0));
    const before = bytesOf(policy);
    trainer.step(collector.collect(10, 1));
    const after = bytesOf(policy);
    expect(modules.filter((name) => after[name] !== before[name])).toEqual(
      modules.filter((name) => changes.includes(name)),
    );
  });

  test("a training step comes out the same without the weights that it does not read", () => {
    const run = (poisoned: readonly ModuleName[]) => {
      const { policy, collector, trainer } = buildParts({ phase });
      const rollout = collector.collect(10, 0);
      for (const name of poisoned) poison(policy, name);
      trainer.step(rollout);
      return bytesOf(policy);
    };
    const plain = run([]);
    const without = run(ignores);
    for (const name of modules.filter((other) => !ignores.includes(other))) expect(without[name]).toBe(plain[name]);
  });
});

test("a student acts where nothing privileged is known", () => {
  for (const phase of ["adapt", "finetune"] as const) {
    const { policy, env } = buildParts({ phase });
    const actor = new AdaptationActor(policy, { phase, numEnvs: env.numEnvs, seed: 3 });
    const known = Float32Array.from(env.reset(1).observations_NO);
    const blind = known.map((value, i) =>
      i % env.observationSize < env.observationGroups.priv.start ? value : Number.NaN,
    );
    const isFirst = new Uint8Array(env.numEnvs).fill(1);
    const { actions_NA } = noGrad(() => tensorScope(() => actor.act(blind, isFirst)));
    expect(actions_NA.every(Number.isFinite)).toBe(true);
  }
});

test("the slow copy goes a twenty-fifth of the way to the adapt module after a step", () => {
  const { policy, collector, trainer } = buildParts();
  const before = policy.adaptEma.parameters().map((parameter) => parameter.toArray());
  trainer.step(collector.collect(10, 0));
  const fast = policy.adaptModule.parameters().map((parameter) => parameter.toArray());
  for (const [i, parameter] of policy.adaptEma.parameters().entries()) {
    for (const [j, value] of parameter.toArray().entries()) {
      expect(value).toBeCloseTo(before[i]![j]! + 0.04 * (fast[i]![j]! - before[i]![j]!), 6);
    }
  }
});

test("leaving train, the student takes over the teacher's deviation and the slow copy catches up", () => {
  const { policy, collector, trainer } = buildParts();
  trainer.step(collector.collect(10, 0));
  expect(policy.actorAdapt.distribution.logStd_A.toArray()).not.toEqual(policy.actor.distribution.logStd_A.toArray());
  trainer.enter("finetune");
  expect(policy.actorAdapt.distribution.logStd_A.toArray()).toEqual(policy.actor.distribution.logStd_A.toArray());
  const { adaptEma, adaptModule } = bytesOf(policy);
  expect(adaptEma).toBe(adaptModule);
  expect(policy.normalizer.isFrozen).toBe(true);
});

test("phases do not go back", () => {
  const { trainer } = buildParts({ phase: "finetune" });
  expect(() => trainer.enter("train")).toThrow(
    'phase "train" comes before "finetune", where training is. Phases go train, adapt, finetune; adapt may be left out.',
  );
});

test("the encoder is pulled to the student only where that is asked for", () => {
  const encoderAfter = (encoderPull: { weight: number; iterations: number } | null) => {
    const { policy, collector, trainer } = buildParts({ trainer: { encoderPull } });
    for (let step = 0; step < 2; step++) trainer.step(collector.collect(10, step));
    return bytesOf(policy).encoderPriv;
  };
  const without = encoderAfter(null);
  // The weight is 0 at the first iteration and 0.1 at the second.
  expect(encoderAfter({ weight: 0.1, iterations: 1 })).not.toBe(without);
  expect(encoderAfter({ weight: 0, iterations: 1 })).toBe(without);
});
