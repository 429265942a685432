import { expect, test } from "vitest";
import { sums } from "../../examples/envs/sums.ts";
import { describeTextEnvContract } from "../contracts/text-env.contract.ts";

for (const part of ["train", "validation"] as const) {
  describeTextEnvContract(`sums, ${part}`, () => sums({ part }), { isOracleSure: true, needsOracle: true });
}

/** The question without regard to the order of its numbers. */
async function pairs(part: "train" | "validation", count: number): Promise<string[]> {
  const { makeEnv, makePrompt } = sums({ part });
  const envs = await Promise.all(Array.from({ length: count }, (_, seed) => makeEnv(makePrompt!(seed), 0)));
  return envs.map((env) => env.render!().split(" = ")[0]!.split(" + ").sort().join(" + "));
}

test("no sum of the validation is ever trained on, in either order", async () => {
  const trained = new Set(await pairs("train", 20_000));
  const validated = await pairs("validation", 2000);
  // Pairs without order: 5,050 in all. Nearly every one of its part is drawn.
  expect(trained.size).toBeGreaterThan(3500);
  expect(new Set(validated).size).toBeGreaterThan(700);
  expect(validated.filter((pair) => trained.has(pair))).toEqual([]);
});
