import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { offPolicySequenceMask } from "./off-policy-sequence-mask.ts";

const rows = (...values: number[]) => tensor(values.map((value) => [value, value]));

test("only bad sequences that the policy would no longer produce are dropped", () => {
  // Mean gaps sampler - policy of 1, 0.2, 1 and NaN.
  const mask_BT = offPolicySequenceMask(
    {
      policyLogprobs_BT: rows(-2, -1.2, -2, Number.NaN),
      samplerLogprobs_BT: rows(-1, -1, -1, -1),
      advantages_BT: rows(1, -1, -1, -1),
      lossMask_BT: rows(1, 1, 1, 1).ne(0),
    },
    { threshold: 0.5 },
  );
  expect(mask_BT.toArray()).toEqual([1, 1, 1, 1, 0, 0, 0, 0]);
});

test("padding does not count", () => {
  const mask_BT = offPolicySequenceMask(
    {
      policyLogprobs_BT: tensor([[-1, -50]]),
      samplerLogprobs_BT: tensor([[-1, -1]]),
      advantages_BT: tensor([[-1, -1]]),
      lossMask_BT: tensor([[1, 0]]).ne(0),
    },
    { threshold: 0.5 },
  );
  expect(mask_BT.toArray()).toEqual([1, 0]);
});
