import { expect, test } from "vitest";
import { checkVerlLosses } from "../../../scripts/parity/verl-losses.ts";

const errors = checkVerlLosses("fixtures/verl");

test.each(Object.entries(errors))("%s equals verl's within 1e-9", (_, error) => {
  expect(error).toBeLessThanOrEqual(1e-9);
});

test("ten policy losses and the value loss are compared", () => {
  const names = Object.keys(errors).map((kind) => kind.split(".").slice(0, -1).join("."));
  expect(new Set(names).size).toBe(11);
});
