import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { noGrad } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import {
  AdaptationPolicy,
  type AdaptationPolicyShape,
  adaptationPolicyKind,
} from "../adaptation/policy/adaptation-policy.ts";
import { loadPolicy, savePolicy } from "./policy-files.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-adaptation-policy-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const shape: AdaptationPolicyShape = {
  observationSize: 4,
  layout: {
    cmd: { start: 0, size: 1 },
    obs: { start: 1, size: 2 },
    object: { start: 0, size: 0 },
    priv: { start: 3, size: 1 },
  },
  actionSize: 2,
  numRewardGroups: 1,
  latentSize: 4,
  actorHidden: [8],
  criticHidden: [8],
  adaptModule: { type: "gru" },
  logStd: -1,
  normalizerDecay: 0.9999,
};

test("a policy that was saved and loaded acts alike to the bit, as teacher and as student", () => {
  const policy = new AdaptationPolicy({ ...shape, seed: 4 });
  policy.normalizer.update({ numTicks: 2, numEnvs: 1, observations_TNO: Float32Array.of(1, 2, 3, 4, 5, 6, 7, 9) });
  savePolicy(policy, shape, folder);
  const { policy: loaded } = loadPolicy(adaptationPolicyKind, folder);
  const outputsOf = (own: AdaptationPolicy) =>
    noGrad(() => {
      const seen_TNO = own.normalizer.forward(tensor(Float32Array.of(0.5, 3, -2, 8), [1, 1, 4]));
      const carry_NC = tensor(Float32Array.of(0.1, 0.2, 0.3, 0.4), [1, 4]);
      const { latents_TNZ } = own.predict("adaptEma", seen_TNO, tensor([[0]]).ne(0), carry_NC);
      return [
        own.means("actor", seen_TNO, own.encode(seen_TNO)),
        own.means("actorAdapt", seen_TNO, latents_TNZ),
        own.values(seen_TNO),
      ].map((values) => values.toArray());
    });
  expect(outputsOf(loaded)).toEqual(outputsOf(policy));
});

test("a folder without a shape says what it should be", () => {
  writeFileSync(join(folder, "policy.json"), "{}");
  expect(() => loadPolicy(adaptationPolicyKind, folder)).toThrow(
    /policy\.json cannot be read.*Give the folder of an adaptation policy/s,
  );
});
