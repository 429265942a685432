import { expect, test } from "vitest";
import { ended, format, tokenizer, turnOf } from "../../test/rollout/episode-parts.ts";
import { ChatFormat, Conversation } from "./conversation.ts";

const system = { role: "system", content: "Rules." };
const user = (content: string) => ({ role: "user", content });

test("the prompt of the second turn is the first prompt, the reply's own tokens, and what is new", async () => {
  const talk = new Conversation(format, [system], undefined);
  const first = await talk.ask([user("one?")]);
  expect(tokenizer.decode(first)).toBe(
    "<|im_start|>system\nRules.<|im_end|>\n<|im_start|>user\none?<|im_end|>\n<|im_start|>assistant\n",
  );
  answer(talk, first, ended("yes"));
  const second = await talk.ask([user("two?")]);
  expectExtends(second, first, ended("yes"));
  expect(tokenizer.decode(second.subarray(first.length + 4))).toBe(
    "\n<|im_start|>user\ntwo?<|im_end|>\n<|im_start|>assistant\n",
  );
  expect(talk.messages.map(({ role, content }) => [role, content])).toEqual([
    ["system", "Rules."],
    ["user", "one?"],
    ["assistant", "yes"],
    ["user", "two?"],
  ]);
});

test("tokens that the tokenizer itself would not have chosen stay as they were sampled", async () => {
  // Two invalid bytes are the text of two replacement characters, which encode to six other bytes.
  const talk = new Conversation(format, [], undefined);
  const first = await talk.ask([user("?")]);
  answer(talk, first, [0xff, 0xfe, 258]);
  const second = await talk.ask([user("!")]);
  expectExtends(second, first, [0xff, 0xfe, 258]);
});

test("a reply cut by its length gets its end from the template, behind its own tokens", async () => {
  const talk = new Conversation(format, [], undefined);
  const first = await talk.ask([user("?")]);
  answer(talk, first, [...tokenizer.encode("cut of")]);
  const second = await talk.ask([user("!")]);
  expectExtends(second, first, tokenizer.encode("cut of"));
  expect(tokenizer.decode(second.subarray(first.length + 6))).toMatch(/^<\|im_end\|>\n<\|im_start\|>user/);
});

test("the text of a reply is without the token that ended it, whichever of them it was", () => {
  expect(format.replyText({ tokenIds: Int32Array.from(ended("hi")) })).toBe("hi");
  expect(format.replyText({ tokenIds: Int32Array.of(104, 105, 256) })).toBe("hi");
  expect(format.replyText({ tokenIds: Int32Array.of(104, 105) })).toBe("hi");
  expect(format.replyText({ tokenIds: Int32Array.of() })).toBe("");
  expect(format.endText(Int32Array.from(ended("hi")))).toBe("<|im_end|>");
  expect(format.endText(Int32Array.of(104))).toBe("");
});

test("a reply that ended with another end token than the template's keeps it, in place of the template's", async () => {
  const talk = new Conversation(format, [], undefined);
  const first = await talk.ask([user("?")]);
  answer(talk, first, [104, 105, 256]);
  const second = await talk.ask([user("!")]);
  expect(tokenizer.decode(second)).toContain("<|im_start|>assistant\nhi<|endoftext|>\n<|im_start|>user");
  expect([...second.subarray(first.length, first.length + 3)]).toEqual([104, 105, 256]);
});

test("tools are in every prompt", async () => {
  const tools = [{ type: "function" as const, function: { name: "look", description: "", parameters: {} } }];
  const talk = new Conversation(format, [system], tools);
  const first = await talk.ask([user("?")]);
  expect(tokenizer.decode(first)).toMatch(/^<\|im_start\|>system\nRules\.\n\nTools:\n\{.*"look"/);
  answer(talk, first, ended("a"));
  expectExtends(await talk.ask([user("!")]), first, ended("a"));
});

test("with the context of a turn the model sees instructions and the latest observation, and nothing between", async () => {
  const talk = new Conversation(new ChatFormat(tokenizer, { context: "turn" }), [system], undefined);
  answer(talk, await talk.ask([user("one?")]), ended("yes"));
  expect(tokenizer.decode(await talk.ask([user("two?")]))).toBe(
    "<|im_start|>system\nRules.<|im_end|>\n<|im_start|>user\ntwo?<|im_end|>\n<|im_start|>assistant\n",
  );
  expect(talk.messages).toHaveLength(4);
});

test("a prompt that is longer than allowed is not built to its end", async () => {
  const talk = new Conversation(format, [], undefined);
  const prompt = await talk.ask([user("word ".repeat(100_000))], 1000);
  expect(prompt.length).toBeGreaterThan(1000);
  expect(prompt.length).toBeLessThan(20_000);
});

test("messages that the template refuses reject", async () => {
  const talk = new Conversation(format, [], undefined);
  await expect(talk.ask([{ role: "wizard", content: "?" }])).rejects.toThrow(/Unknown role wizard/);
});

function answer(talk: Conversation, promptIds: Int32Array, ids: readonly number[]): void {
  const { reply, replyText } = turnOf(promptIds, ids);
  talk.answer({ promptIds, reply, replyText });
}

function expectExtends(prompt: Int32Array, before: Int32Array, reply: ArrayLike<number>): void {
  expect([...prompt.subarray(0, before.length + reply.length)]).toEqual([...before, ...Array.from(reply)]);
}
