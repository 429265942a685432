import { expect, test } from "vitest";
import { byteTokenizerFiles } from "../chat/tokenizer/byte-tokenizer.ts";
import { createTokenizer } from "../chat/tokenizer/tokenizer.ts";
import type { GenerateRequest, Generation } from "../generation/generate.ts";
import { Chat } from "./chat.ts";

const tokenizer = createTokenizer(byteTokenizerFiles(), "bytes");

/** Answers "a1", "a2" and so on, a token at a time, and remembers what it was asked. */
function scripted() {
  const prompts: string[] = [];
  const generate = async ({ promptIds, onTokens }: GenerateRequest): Promise<Generation> => {
    prompts.push(tokenizer.decode(Int32Array.from(promptIds)));
    const ids = [...tokenizer.encode(`a${prompts.length}`), tokenizer.stopIds[0]!];
    const tokens = (list: number[]) => ({
      tokenIds: Int32Array.from(list),
      samplerLogprobs: new Float32Array(list.length),
      drawLogprobs: new Float32Array(list.length),
      modelLogprobs: new Float32Array(list.length),
      versions: new Int32Array(list.length),
      cacheVersions: new Int32Array(list.length),
    });
    for (const id of ids) onTokens?.(tokens([id]));
    const usage = { promptTokens: promptIds.length, cachedTokens: 0, generatedTokens: ids.length };
    return { ...tokens(ids), finish: { kind: "stop", by: "token", tokenId: ids.at(-1)! }, usage };
  };
  return { prompts, generate };
}

test("a reply comes as it is written, without the token that ends it, and is part of the next prompt", async () => {
  const { prompts, generate } = scripted();
  const chat = new Chat({ generate, tokenizer, sampling: { maxTokens: 8 }, system: "Be brief." });
  const heard: string[] = [];
  expect(await chat.say("one", (text) => heard.push(text))).toMatchObject({ kind: "stop" });
  expect(heard.filter((text) => text !== "")).toEqual(["a", "1"]);
  await chat.say("two", () => {});
  expect(chat.messages.map(({ role, content }) => `${role}: ${content}`)).toEqual([
    "system: Be brief.",
    "user: one",
    "assistant: a1",
    "user: two",
    "assistant: a2",
  ]);
  expect(prompts[1]).toMatch(/Be brief\.[\s\S]*one[\s\S]*a1[\s\S]*two/);
});

test("reset forgets everything but the system message", async () => {
  const { prompts, generate } = scripted();
  const chat = new Chat({ generate, tokenizer, sampling: { maxTokens: 8 }, system: "Be brief." });
  await chat.say("one", () => {});
  chat.reset();
  await chat.say("two", () => {});
  expect(prompts[1]).not.toContain("one");
  expect(prompts[1]).toContain("Be brief.");
});
