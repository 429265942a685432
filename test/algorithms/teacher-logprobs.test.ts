/** What the types forbid: log-probs under another context are never importance weights. The compiler checks the comments below. */
import { expect, test } from "vitest";
import { correctRollout } from "../../src/algorithms/corrections/rollout-correction.ts";
import { ppoClipLoss } from "../../src/algorithms/losses/policy/ppo-clip.ts";
import type { TeacherLogprobs, TokenBatch } from "../../src/flow/token-batch.ts";
import type { Lesson, TokenSample } from "../../src/flow/token-sample.ts";
import { tensor } from "../../src/torch/create.ts";

const logprobs_BT = tensor([[-1, -2]]);
const lossMask_BT = tensor([[1, 1]]).ne(0);
const teacher: TeacherLogprobs = { ofTeacher_BT: logprobs_BT };

test("a correction takes no log-probs of a teacher, neither as the policy's nor as the sampler's", () => {
  const inputs = { policyLogprobs_BT: logprobs_BT, samplerLogprobs_BT: logprobs_BT, lossMask_BT };
  const options = { importance: null, rejections: [], scope: "token" } as unknown as Parameters<
    typeof correctRollout
  >[1];
  // @ts-expect-error a teacher is no policy
  expect(() => correctRollout({ ...inputs, policyLogprobs_BT: teacher }, options)).toThrow();
  // @ts-expect-error a teacher has sampled nothing
  expect(() => correctRollout({ ...inputs, samplerLogprobs_BT: teacher }, options)).toThrow();
});

test("a ratio is not taken against a teacher", () => {
  const inputs = { policyLogprobs_BT: logprobs_BT, advantages_BT: logprobs_BT, lossMask_BT };
  const options = { clipLow: 0.2, clipHigh: 0.2, dualClip: null };
  // @ts-expect-error a teacher is no anchor
  expect(() => ppoClipLoss({ ...inputs, anchorLogprobs_BT: teacher }, options)).toThrow();
});

test("neither a batch nor a lesson has room for log-probs of a context where those of a sampler go", () => {
  // @ts-expect-error a teacher is no anchor
  const batch: Pick<TokenBatch, "anchorLogprobs_BT"> = { anchorLogprobs_BT: teacher };
  const lesson: Lesson = {
    tokenIds: Int32Array.of(1, 2),
    lossMask: Uint8Array.of(0, 1),
    teacherPromptIds: Int32Array.of(7, 1),
    // @ts-expect-error what a reply was drawn with in its context is no part of a lesson
    samplerLogprobs: Float32Array.of(0, -1),
  };
  // @ts-expect-error a lesson is no row
  const row: TokenSample = lesson;
  expect([batch.anchorLogprobs_BT, row.tokenIds.length]).toEqual([teacher, 2]);
});
