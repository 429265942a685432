import { expect, test } from "vitest";
import { noGrad } from "../../../torch/autograd.ts";
import { tensor, zeros } from "../../../torch/create.ts";
import { tensorScope } from "../../../torch/scope.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { AdaptationPolicy } from "./adaptation-policy.ts";
import { layoutOf, type ObservationGroup } from "./observation-layout.ts";

const groups: readonly ObservationGroup[] = ["cmd", "obs", "object", "priv"];
const layout = layoutOf(Object.fromEntries(groups.map((group, i) => [group, { start: 2 * i, size: 2 }])));
const policy = new AdaptationPolicy({
  observationSize: 8,
  layout,
  actionSize: 2,
  numRewardGroups: 3,
  latentSize: 4,
  actorHidden: [8],
  criticHidden: [8],
  adaptModule: { type: "gru" },
  logStd: 0,
  normalizerDecay: 1,
  seed: 2,
});

const outputs: Readonly<Record<string, (observations_TNO: Tensor) => Tensor>> = {
  encoderPriv: (seen) => policy.encode(seen),
  adaptModule: (seen) => policy.predict("adaptModule", seen, tensor([[0]]).ne(0), zeros([1, 4])).latents_TNZ,
  adaptEma: (seen) => policy.predict("adaptEma", seen, tensor([[0]]).ne(0), zeros([1, 4])).latents_TNZ,
  actor: (seen) => policy.means("actor", seen, zeros([1, 1, 4])),
  actorAdapt: (seen) => policy.means("actorAdapt", seen, zeros([1, 1, 4])),
  critic: (seen) => policy.values(seen),
};

test.each([
  ["encoderPriv", ["object", "priv"]],
  ["adaptModule", ["cmd", "obs", "object"]],
  ["adaptEma", ["cmd", "obs", "object"]],
  ["actor", ["cmd", "obs"]],
  ["actorAdapt", ["cmd", "obs"]],
  ["critic", ["cmd", "obs", "object", "priv"]],
])("%s reads %j and nothing else", (name, reads) => {
  const read = groups.filter((group) => {
    const observation = Float32Array.from({ length: 8 }, (_, o) => {
      const isPoisoned = Math.floor(o / 2) === groups.indexOf(group);
      return isPoisoned ? Number.NaN : 0.5;
    });
    return tensorScope(() => {
      const values = noGrad(() => outputs[name]!(tensor(observation, [1, 1, 8])));
      return values.isFinite().all().item() === 0;
    });
  });
  expect(read).toEqual(reads);
});

test("the slow copy starts as the adapt module and gets no gradient", () => {
  const [fast, slow] = [policy.adaptModule, policy.adaptEma].map((module) => module.parameters());
  expect(slow!.map((parameter) => parameter.toArray())).toEqual(fast!.map((parameter) => parameter.toArray()));
  expect(slow!.some((parameter) => parameter.requiresGrad)).toBe(false);
});

test("the slow copy goes part of the way", () => {
  const own = new AdaptationPolicy({
    observationSize: 8,
    layout,
    actionSize: 1,
    numRewardGroups: 1,
    latentSize: 2,
    actorHidden: [2],
    criticHidden: [2],
    adaptModule: { type: "mlp", history: 1 },
    logStd: 0,
    normalizerDecay: 1,
    seed: 1,
  });
  noGrad(() => {
    for (const parameter of own.adaptModule.parameters()) parameter.fill_(5);
    for (const parameter of own.adaptEma.parameters()) parameter.fill_(1);
  });
  own.moveEma(0.25);
  expect(new Set(own.adaptEma.parameters().flatMap((parameter) => parameter.toArray()))).toEqual(new Set([2]));
});
