import { expect, test } from "vitest";
import { never, rewardInput } from "../../../test/rewards/reward-input.ts";
import { ifeval } from "./ifeval.ts";

const truth = {
  instruction_id_list: ["punctuation:no_comma", "startend:quotation"],
  kwargs: [{}, {}],
};

async function score(reply: string, options: Parameters<typeof ifeval.options.parse>[0] = {}) {
  const reward = await ifeval.build(ifeval.options.parse(options));
  return reward.score(rewardInput(reply, truth), never);
}

test("the prompt level wants all, the instruction level gives the share", async () => {
  expect(await score("a b")).toEqual({
    value: 0,
    parts: { prompt_level: 0, instruction_level: 0.5 },
    explanation: "does not follow startend:quotation",
  });
  expect(await score("a b", { level: "instruction" })).toMatchObject({ value: 0.5 });
  expect(await score('"a b"')).toMatchObject({ value: 1, explanation: "follows all instructions" });
});

test("loose takes the best form of the reply for each instruction", async () => {
  expect(await score('Sure, here:\n"a b"')).toMatchObject({ value: 0 });
  expect(await score('Sure, here:\n"a b"', { variant: "loose" })).toMatchObject({ value: 1 });
});

test("thoughts are not judged", async () => {
  expect(await score('<think>a, b</think>"a b"')).toMatchObject({ value: 1 });
  expect(await score('<think>a, b</think>"a b"', { ignoreThinking: false })).toMatchObject({ value: 0 });
});
