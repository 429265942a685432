import { expect, test } from "vitest";
import { checkVerlAdvantages } from "../../../scripts/parity/verl-advantages.ts";

const errors = checkVerlAdvantages("fixtures/verl");

test.each(Object.entries(errors))("%s equals verl's within 1e-9", (_, error) => {
  expect(error).toBeLessThanOrEqual(1e-9);
});

test("every estimator of the golden file is compared", () => {
  expect(
    Object.keys(errors)
      .filter((kind) => kind.endsWith(".advantages"))
      .sort(),
  ).toEqual(
    [
      "gae",
      "gpg",
      "grpo",
      "grpo_passk",
      "opo",
      "reinforce_plus_plus",
      "reinforce_plus_plus_baseline",
      "remax",
      "rloo",
    ].map((name) => `${name}.advantages`),
  );
});
