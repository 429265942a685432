import { expect, test } from "vitest";
import { ChatFormat } from "./conversation.ts";
import { byteTokenizerFiles } from "./tokenizer/byte-tokenizer.ts";
import { createTokenizer } from "./tokenizer/tokenizer.ts";
import { writeTurns } from "./written-turns.ts";

const user = (content: string) => ({ role: "user", content });
const assistant = (content: string) => ({ role: "assistant", content });
const conversation = [user("one?"), assistant("yes"), user("two?"), assistant("no")];

function formatWith(template?: string): ChatFormat {
  const files = new Map(byteTokenizerFiles());
  if (template !== undefined) files.set("chat_template.jinja", new TextEncoder().encode(template));
  return new ChatFormat(createTokenizer(files, "test"));
}

/** Each sequence as text, with its replies in brackets. */
async function written(format: ChatFormat, messages = conversation): Promise<string[]> {
  const decode = (ids: Int32Array) => format.tokenizer.decode(ids);
  return (await writeTurns(format, messages)).map(({ tokenIds, replies }) => {
    let at = 0;
    const parts = replies.map(({ start, end }) => {
      const text = `${decode(tokenIds.subarray(at, start))}[${decode(tokenIds.subarray(start, end))}]`;
      at = end;
      return text;
    });
    return parts.join("") + decode(tokenIds.subarray(at));
  });
}

test("replies of a conversation stand in one sequence, each with the token that ends it", async () => {
  const format = formatWith();
  expect(await written(format)).toEqual([
    "<|im_start|>user\none?<|im_end|>\n<|im_start|>assistant\n[yes<|im_end|>]\n" +
      "<|im_start|>user\ntwo?<|im_end|>\n<|im_start|>assistant\n[no<|im_end|>]",
  ]);
  const [sequence] = await writeTurns(format, conversation);
  expect(sequence!.replies).toEqual([
    // A mark, "user\n", "one?", a mark, "\n", a mark, "assistant\n": 1 + 5 + 4 + 1 + 1 + 1 + 10.
    { message: 1, start: 23, end: 27 },
    { message: 3, start: 27 + 24, end: 27 + 24 + 3 },
  ]);
});

test("what the model sees before a reply is what a rollout would have shown it: words after the last reply are left out", async () => {
  const [sequence] = await written(formatWith(), [...conversation.slice(0, 2), user("and?")]);
  expect(sequence).toMatch(/\[yes<\|im_end\|>\]$/);
});

test("where the template shows earlier replies without their reasoning, each reply has a sequence of its own", async () => {
  const format = formatWith(
    "{% for message in messages %}<|im_start|>{{ message.role }}\n" +
      "{% if message.role == 'assistant' and not loop.last %}{{ message.content.split('#')[-1] }}{% else %}{{ message.content }}{% endif %}<|im_end|>\n" +
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
  );
  const messages = [user("a"), assistant("think#b"), user("c"), assistant("d")];
  expect(await written(format, messages)).toEqual([
    "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[think#b<|im_end|>]",
    "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n[d<|im_end|>]",
  ]);
});

test("a reply whose end the template does not write gets the end token of the tokenizer", async () => {
  const format = formatWith("{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}");
  expect(await written(format, conversation.slice(0, 2))).toEqual(["user: one?\n[assistant: yes\n<|im_end|>]"]);
});

test("a template that opens a reply in its own way is followed by the text of the reply", async () => {
  const format = formatWith(
    "{% for message in messages %}{{ message.role }}: {{ message.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}assistant: <think>{% endif %}",
  );
  expect(await written(format, conversation.slice(0, 2))).toEqual([
    "user: one?<|im_end|>assistant: <think>[yes<|im_end|>]",
  ]);
  const silent = [user("?"), { role: "assistant", content: null, tool_calls: [] }];
  await expect(writeTurns(format, silent)).rejects.toThrow(/the reply is no plain text/);
});

test("messages that the template refuses reject", async () => {
  await expect(writeTurns(formatWith(), [{ role: "wizard", content: "?" }, assistant("a")])).rejects.toThrow(
    /Unknown role wizard/,
  );
});
