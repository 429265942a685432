import fc from "fast-check";
import { expect, test } from "vitest";
import { describeTextEnvContract } from "../../../test/contracts/text-env.contract.ts";
import { Random } from "../../random/random.ts";
import { evaluateArithmetic } from "../arithmetic/evaluate-arithmetic.ts";
import { buildEnv } from "../catalog.ts";
import { CountdownEnv, countdown, countdownOptions } from "./countdown.ts";
import { drawPuzzle, solvePuzzle } from "./puzzle.ts";

const options = countdownOptions.parse({});
const puzzle = { numbers: [3, 7, 25, 25], target: 53 };

function rewardOf(text: string, given = options): number {
  const env = new CountdownEnv(puzzle, given);
  env.start();
  return env.step({ text, isCut: false }).reward;
}

test("a right expression is worth 1, also when numbers are left over or written twice as given", () => {
  expect(rewardOf("25 and 25 are 50. <answer>25 + 25 + 3</answer>")).toBe(1);
  expect(rewardOf("<answer> 7 * 7 + 4 </answer> No. <answer> (3 + 25) + 25 </answer>")).toBe(1);
});

test("a readable expression that is wrong is worth the format credit", () => {
  expect(rewardOf("<answer>25 + 25</answer>")).toBe(0.1);
  expect(rewardOf("<answer>53</answer>")).toBe(0.1);
  expect(rewardOf("<answer>25 + 25 + 25 / 25 + 3 - 1</answer>")).toBe(0.1);
});

test("what cannot be read is worth 0", () => {
  expect(rewardOf("25 + 25 + 3")).toBe(0);
  expect(rewardOf("<answer>25 + 25 + 3 = 53</answer>")).toBe(0);
  expect(rewardOf("<answer>process.exit()</answer>")).toBe(0);
});

test("all numbers can be demanded", () => {
  const all = { ...options, mustUseAll: true };
  expect(rewardOf("<answer>25 + 25 + 3</answer>", all)).toBe(0.1);
  // 7 - 3 = 4 does not help; 25 + 25 + 7 - 3 = 54.
  expect(rewardOf("<answer>25 + 25 + 7 - 3</answer>", all)).toBe(0.1);
});

test("fractions on the way count exactly", () => {
  const env = new CountdownEnv({ numbers: [8, 3, 8, 3], target: 24 }, options);
  env.start();
  // 8 / (3 - 8 / 3) = 24.
  expect(env.step({ text: "<answer>8 / (3 - 8 / 3)</answer>", isCut: false }).reward).toBe(1);
});

test("drawn puzzles keep their sizes and can be solved with all numbers", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 32 - 1 }), fc.integer({ min: 2, max: 4 }), (seed, numNumbers) => {
      const drawn = drawPuzzle({ numNumbers, maxNumber: 20, maxTarget: 200 }, new Random(seed));
      expect(drawn.numbers).toHaveLength(numNumbers);
      expect(drawn.target).toBeGreaterThanOrEqual(1);
      expect(drawn.target).toBeLessThanOrEqual(200);
      const solution = evaluateArithmetic(solvePuzzle(drawn, true)!);
      expect(solution).toMatchObject({ kind: "value", value: { numerator: BigInt(drawn.target), denominator: 1n } });
    }),
    { numRuns: 50 },
  );
});

test("a puzzle without solution is told apart", () => {
  expect(solvePuzzle({ numbers: [1, 1], target: 9 }, false)).toBeNull();
  expect(solvePuzzle({ numbers: [2, 9], target: 9 }, false)).toBe("9");
  expect(solvePuzzle({ numbers: [2, 9], target: 9 }, true)).toBeNull();
});

test("the oracle is paid 1, in full and compact form, and the puzzle may come from data", async () => {
  for (const prompt of ["full", "compact"] as const) {
    const factory = countdown.build({ ...options, prompt, mustUseAll: true });
    for (let seed = 0; seed < 30; seed++) {
      const env = await factory.makeEnv(factory.makePrompt!(seed), 0);
      await env.start(new AbortController().signal);
      const step = await env.step({ text: env.oracleReply!()!, isCut: false }, new AbortController().signal);
      expect(step).toMatchObject({ kind: "terminated", reward: 1, metrics: { success: 1 } });
    }
    const given = { ...factory.makePrompt!(0), truth: { numbers: [1, 2], target: 3 } };
    const opening = await (await factory.makeEnv(given, 0)).start(new AbortController().signal);
    expect(opening.observation.messages[0]!.content).toBe(prompt === "full" ? "Numbers: 1, 2\nTarget: 3" : "1 2 = 3");
  }
});

describeTextEnvContract("countdown", () => buildEnv({ type: "countdown" }), { needsOracle: true, isOracleSure: true });
