import { expect, test } from "vitest";
import { checkVerlMisc } from "../../../scripts/parity/verl-misc.ts";

test.each(Object.entries(checkVerlMisc("fixtures/verl")))("%s equals verl's within 1e-9", (_, error) => {
  expect(error).toBeLessThanOrEqual(1e-9);
});
