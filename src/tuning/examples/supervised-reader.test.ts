import { expect, test } from "vitest";
import { ChatFormat } from "../../chat/conversation.ts";
import { byteTokenizerFiles } from "../../chat/tokenizer/byte-tokenizer.ts";
import { createTokenizer } from "../../chat/tokenizer/tokenizer.ts";
import { supervisedReader } from "./supervised-reader.ts";

test("the first token of a conversation is never a loss token, even where a reply begins with it", async () => {
  const template = "{% for message in messages %}{{ message.content }}<|im_end|>{% endfor %}";
  const files = new Map(byteTokenizerFiles()).set("chat_template.jinja", new TextEncoder().encode(template));
  const format = new ChatFormat(createTokenizer(files, "test"));
  const row = { messages: [{ role: "assistant", content: "ab" }] };
  const { read } = supervisedReader({ train: "assistant", chat: true });
  const [example] = await read({ row, file: "data", index: 0 }, { format, fields: {} });
  expect([...example!.sequences[0]!.lossMask]).toEqual([0, 1, 1]);
});
