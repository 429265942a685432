import { expect, test } from "vitest";
import { checkVerlCorrections } from "../../../scripts/parity/verl-corrections.ts";

const errors = checkVerlCorrections("fixtures/verl");

test.each(Object.entries(errors))("%s equals verl's within 1e-9", (_, error) => {
  expect(error).toBeLessThanOrEqual(1e-9);
});

test("weights, masks and three kinds of metrics are compared", () => {
  expect(Object.keys(errors)).toHaveLength(5);
});
