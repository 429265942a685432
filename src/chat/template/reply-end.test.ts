import { expect, test } from "vitest";
import { byteTokenizerFiles } from "../tokenizer/byte-tokenizer.ts";
import { createTokenizer } from "../tokenizer/tokenizer.ts";
import { replyEnds } from "./reply-end.ts";

const filesWith = (template: string, stopIds: readonly number[]) => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  return new Map([
    ...byteTokenizerFiles(),
    ["chat_template.jinja", bytes(template)] as const,
    ["generation_config.json", bytes(JSON.stringify({ eos_token_id: stopIds }))] as const,
  ]);
};

test("of several stop tokens, a reply ends with the one that the template writes behind it", () => {
  const plain = createTokenizer(byteTokenizerFiles(), "bytes");
  expect(plain.stopIds.length).toBeGreaterThan(1);
  expect(replyEnds(plain).map((id) => plain.tokenOf(id))).toEqual(["<|im_end|>"]);
});

test("where the template writes none of them, each may end a reply", () => {
  const template = "{% for message in messages %}{{ message.content }}\n{% endfor %}";
  const tokenizer = createTokenizer(filesWith(template, [256, 258]), "bytes");
  expect([...replyEnds(tokenizer)].sort()).toEqual([...tokenizer.stopIds].sort());
});
