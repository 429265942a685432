import { expect, test } from "vitest";
import { packWork, unpackWork } from "./step-plan.ts";

test("a step arrives as it was planned: pieces with their blocks and states, copies before it, tokens end to end", () => {
  const state = { stateSlot: null, stateSource: null, stateMark: null };
  const step = {
    kind: "step" as const,
    blocks: [
      { from: 3, to: 9 },
      { from: 3, to: 10 },
    ],
    stateRows: [{ from: 0, to: 7 }],
    pieces: [
      { numTokens: 3, isLast: false, sequence: { numComputed: 0, blocks: [4, 2], ...state } },
      {
        numTokens: 1,
        isLast: true,
        sequence: {
          numComputed: 8,
          blocks: [1, 0, 5],
          stateSlot: 0,
          stateSource: 2,
          stateMark: { slot: 6, length: 9 },
        },
      },
    ],
    ids: Int32Array.of(11, 12, 13, 151_935),
  };
  const arrived = unpackWork(packWork(step));
  expect(arrived).toEqual(step);
  const score = { kind: "score" as const, promptIds: Int32Array.of(5, 6) };
  expect(unpackWork(packWork(score))).toEqual(score);
});
