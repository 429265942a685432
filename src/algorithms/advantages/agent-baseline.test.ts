import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { agentBaseline } from "./agent-baseline.ts";

const close = (value: number) => expect.closeTo(value, 12);

test("each agent is compared with its own past, before the sample enters it", () => {
  const before = new Map([["white", 1]]);
  const rewards_B = tensor([2, -1, 4], { dtype: "float64" });
  const { advantages_B, baselines } = agentBaseline(rewards_B, ["white", "black", "white"], before, { decay: 0.5 });
  // white: 2 - 1, then b = 1.5, 4 - 1.5, then b = 2.75. black: -1 - 0, then b = -0.5.
  expect(advantages_B.toArray()).toEqual([1, -1, 2.5].map(close));
  expect([...baselines]).toEqual([
    ["white", close(2.75)],
    ["black", close(-0.5)],
  ]);
  expect([...before]).toEqual([["white", 1]]);
});

test("a decay outside of [0, 1] is refused", () => {
  expect(() => agentBaseline(tensor([1]), ["a"], new Map(), { decay: 2 })).toThrow(/decay must be in \[0, 1\]: got 2/);
});
