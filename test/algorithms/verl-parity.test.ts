/** All golden vectors of verl, as `npm run parity -- verl fixtures/verl` checks them. */
import { expect, test } from "vitest";
import { checkVerl, VERL_BAR } from "../../scripts/parity/verl.ts";

const errors = checkVerl("fixtures/verl");

test.each(Object.entries(errors))("%s equals verl's within 1e-9", (_, error) => {
  expect(error).toBeLessThanOrEqual(VERL_BAR);
});

test("advantages, losses, corrections, KL, reductions and the controller are all compared", () => {
  const kinds = new Set(Object.keys(errors).map((kind) => kind.split(".")[0]));
  expect([...kinds].toSorted()).toEqual([
    "advantages",
    "agg",
    "kl",
    "klcontrol",
    "policy-loss",
    "rollout-correction",
    "value",
  ]);
});

test("a folder without the files is refused by name", () => {
  expect(() => checkVerl("fixtures/gguf")).toThrow(/fixtures\/gguf must hold advantages\.json/);
});
