import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { fixtureFolder } from "../../../fixtures/tokenizer/make-tokenizer.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { ChatMessage } from "../../flow/chat-message.ts";
import { loadTokenizer } from "../tokenizer/load-tokenizer.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import { type ChatOptions, encodeChat, renderChat } from "./chat-template.ts";

const tokenizer = await loadTokenizer(fixtureFolder);
const question = { role: "user", content: "Hi" };
interface ReferenceChat extends ChatOptions {
  readonly messages: readonly ChatMessage[];
  readonly text: string;
}
const reference = z
  .object({ chat: z.array(z.custom<ReferenceChat>()) })
  .parse(JSON.parse(readFileSync(path.join(fixtureFolder, "reference/fixture.json"), "utf8")));

/** The fixture with other templates. */
function withTemplates(templates: Readonly<Record<string, string>>): Tokenizer {
  return { ...tokenizer, name: "model", chatTemplates: new Map(Object.entries(templates)) };
}

/** What the error of a render says. */
function refusal(render: () => string): RerollError {
  try {
    render();
  } catch (error) {
    if (error instanceof RerollError) return error;
  }
  throw new Error("no RerollError was thrown");
}

test("a conversation becomes ChatML with an opened reply", () => {
  expect(renderChat(tokenizer, [question], { addGenerationPrompt: true })).toBe(
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
  );
});

test("the ids of a conversation hold its special tokens once", () => {
  expect([...encodeChat(tokenizer, [{ role: "user", content: "" }])]).toEqual([
    257,
    ...Buffer.from("user\n"),
    258,
    ...Buffer.from("\n"),
  ]);
});

describe("transformers renders the same for the fixture", () => {
  test.each(reference.chat)("chat %#", ({ messages, text, ...options }) => {
    expect(renderChat(tokenizer, messages, options)).toBe(text);
  });
});

test("what a template refuses becomes an error with its message", () => {
  const error = refusal(() => renderChat(tokenizer, [{ role: "poet", content: "" }]));
  expect(error.code).toBe("CHAT_REFUSED");
  expect(error.message).toMatch(/^Chat template "default" of .* refuses these messages: Unknown role poet\.$/);
});

test("a template that fails is named with the reason", () => {
  const error = refusal(() => renderChat(withTemplates({ default: "{{ 1 + none_such.x.y }}" }), [question]));
  expect(error.message).toMatch(/^Chat template "default" of model failed: /);
});

test("a template that is not Jinja is named with the reason", () => {
  const error = refusal(() => renderChat(withTemplates({ default: "{% if %}" }), [question]));
  expect(error.message).toMatch(/^Chat template "default" of model is not valid Jinja: /);
});

test("a template that needs the date says which option gives it", () => {
  const dated = withTemplates({ default: "{{ strftime_now('%Y') }}" });
  expect(refusal(() => renderChat(dated, [question])).message).toMatch(/It asks for the date: set the option now\.$/);
  expect(renderChat(dated, [question], { now: new Date("2031-01-01T00:00:00Z") })).toBe("2031");
});

test("a tokenizer without a template says so", () => {
  expect(refusal(() => renderChat(withTemplates({}), [question])).message).toMatch(/^model has no chat template\. Put/);
});

test("the template for tools is taken when there are tools", () => {
  const several = withTemplates({ default: "plain", tool_use: "tools", rag: "rag" });
  expect(renderChat(several, [question])).toBe("plain");
  expect(renderChat(several, [question], { tools: [] })).toBe("tools");
  expect(renderChat(several, [question], { template: "rag" })).toBe("rag");
});

test("a template name that does not exist is answered with those that do", () => {
  const several = withTemplates({ rag: "rag", tool_use: "tools" });
  expect(refusal(() => renderChat(several, [question])).message).toBe(
    'model has no chat template "default". It has: rag, tool_use. Set template to one of these.',
  );
});

test("named tokens and further variables reach the template", () => {
  const template = withTemplates({ default: "{{ eos_token }}{{ bos_token }}{{ enable_thinking }}{{ tools is none }}" });
  expect(renderChat(template, [question], { variables: { enable_thinking: false } })).toBe("<|im_end|>FalseTrue");
});

test("a variable must not hide what renderChat sets", () => {
  const error = refusal(() => renderChat(tokenizer, [question], { variables: { messages: [] } }));
  expect(error.message).toMatch(/^variables\.messages is a name that chat templates get from elsewhere\./);
});

const call = { function: { name: "add", arguments: '{"a":1}' } };
const callMessage = { role: "assistant", content: null, tool_calls: [call] };

test("arguments given as JSON text are written as JSON, not as a string", () => {
  const template = withTemplates({ default: "{{ messages[0].tool_calls[0].function.arguments | tojson }}" });
  expect(renderChat(template, [callMessage])).toBe('{"a": 1}');
});

test("arguments given as JSON text stay as they are for a template that reads text", () => {
  const source =
    "{% set call = messages[0].tool_calls[0].function %}{% if call.arguments is string %}{{ call.arguments }}{% endif %}";
  expect(renderChat(withTemplates({ default: source }), [callMessage])).toBe('{"a":1}');
});

test("arguments that are not JSON are refused with the name of the tool", () => {
  const broken = { ...callMessage, tool_calls: [{ function: { name: "add", arguments: "{" } }] };
  expect(refusal(() => renderChat(tokenizer, [broken])).message).toMatch(
    /^tool_calls of "add" has arguments that are not JSON: got \{\./,
  );
});

test("a field that is undefined does not reach the template", () => {
  const template = withTemplates({ default: "{{ tools[0] | tojson }}" });
  expect(renderChat(template, [question], { tools: [{ type: "function", strict: undefined }] })).toBe(
    '{"type": "function"}',
  );
});

test("reasoning is known under both of its names", () => {
  const template = withTemplates({ default: "{{ messages[0].thinking }}/{{ messages[0].reasoning_content }}" });
  expect(renderChat(template, [{ role: "assistant", content: "4", reasoning_content: "2+2" }])).toBe("2+2/2+2");
});
