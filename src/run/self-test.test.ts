import { expect, test } from "vitest";
import { runSelfTest } from "./self-test.ts";

test("engine and trainer agree, and the cut into microbatches changes nothing", async () => {
  const { samplerGap, cutDifference } = await runSelfTest("cpu");
  expect(samplerGap).toBeGreaterThanOrEqual(0);
  expect(samplerGap).toBeLessThan(1e-4);
  expect(cutDifference).toBeLessThan(1e-4);
});
