import { expect, test } from "vitest";
import { describeMetric, metricTable } from "./metrics.ts";

test("an exact name counts before the family it also fits", () => {
  expect(describeMetric("reward/mean")?.meaning).toMatch(/^Mean total reward/);
  expect(describeMetric("reward/format")?.meaning).toBe("Mean of one part of the reward.");
});

test("the first family that fits counts", () => {
  expect(describeMetric("rollout_corr/rollout_rs_token_k1_masked_fraction")?.unit).toBe("share");
  expect(describeMetric("rollout_corr/rollout_rs_token_k1_seq_max")?.unit).toBe("");
  expect(describeMetric("time/validate_ms")?.better).toBe("lower");
});

test("a validation metric means what its own name means, on held-out prompts", () => {
  expect(describeMetric("validation/env/success")).toEqual({
    unit: "share",
    better: "higher",
    meaning: "On held-out prompts: Episodes that reached their goal, as the environment reports.",
  });
  expect(describeMetric("validation/pass_at_4")?.meaning).toBe("A metric of the rollout on held-out prompts.");
});

test("a name that nobody has described is undefined", () => {
  expect(describeMetric("reward")).toBeUndefined();
  expect(describeMetric("rollout/gropus")).toBeUndefined();
  expect(describeMetric("toString")).toBeUndefined();
});

test("every meaning is a sentence, and names are stage/quantity", () => {
  for (const [name, { meaning }] of metricTable) {
    expect(name).toMatch(/^[a-z_]+\/[a-z0-9_<>]+$/);
    expect(meaning).toMatch(/^[A-Z].*\.$/);
  }
});
