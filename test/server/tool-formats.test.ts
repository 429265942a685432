/** Tool calls and thinking in the format of each family, through the chat endpoint: whole, streamed, forced, malformed. */
import { expect, test } from "vitest";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import { createTokenizer } from "../../src/chat/tokenizer/tokenizer.ts";
import { grammarOf } from "../../src/generation/constraint/constraint.ts";
import { MODEL, startServer } from "./start-server.ts";

const PLAIN =
  "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}";
const END = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/** Bytes, with a template that shows a format. */
function tokenizerWith(shown: string, opening = "") {
  const template = `{#- ${shown} #}{%- if false %}{{ '${shown}' }}{% endif %}${PLAIN}${END.replace("\n{% endif %}", `\n${opening}{% endif %}`)}`;
  const files = new Map([...byteTokenizerFiles(), ["chat_template.jinja", new TextEncoder().encode(template)]]);
  return createTokenizer(files, "bytes");
}

const tools = [
  {
    type: "function",
    function: { name: "f", parameters: { type: "object", properties: { x: { type: "integer" } }, required: ["x"] } },
  },
];
const body = { model: MODEL, messages: [{ role: "user", content: "hi" }], tools };

const WRITTEN = [
  ["hermes", "<tool_call>", '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'],
  [
    "qwen-xml",
    "<function=<parameter=",
    "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
  ],
  ["llama-json", "<|python_tag|>", '{"name": "f", "parameters": {"x": 1}}'],
  ["pythonic", "[func_name1(a)]", "[f(x=1)]"],
  ["mistral", "[TOOL_CALLS]", '[TOOL_CALLS][{"name": "f", "arguments": {"x": 1}, "id": "123456789"}]'],
  ["gemma4", "<|tool_call>call:", "<|tool_call>call:f{x:1}<tool_call|>"],
  [
    "harmony",
    "<|channel|>commentary",
    '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": 1}<|call|>',
  ],
] as const;

test.each(WRITTEN)("a %s call is a tool call of OpenAI's form, whole and streamed", async (format, shown, text) => {
  const server = await startServer({ tokenizer: tokenizerWith(shown), contextLength: 4000, reply: () => text });
  const whole = (await (await server.post("/v1/chat/completions", body)).json()) as Whole;
  const { message, finish_reason } = whole.choices[0]!;
  expect(finish_reason).toBe("tool_calls");
  expect(message.content).toBe(null);
  expect(message.tool_calls?.map((call) => [call.function.name, JSON.parse(call.function.arguments)])).toEqual([
    ["f", { x: 1 }],
  ]);
  const stream = await (await server.post("/v1/chat/completions", { ...body, stream: true })).text();
  expect(stream).toContain('"tool_calls":[{"index":0');
  expect(stream).not.toMatch(/"content":"[^"]/);
  await server.close();
  for (const kind of ["tool-calls", "json-or-calls"] as const) {
    const asked = { kind, schema: { type: "object" }, tools: [{ name: "f", parameters: {} }], isSingle: false, format };
    expect(grammarOf(asked).kind).toBe("rules");
  }
  const one = grammarOf({ kind: "at-most-one-call", tools: [{ name: "f", parameters: {} }], format });
  if (one.kind === "tagged") expect(one.tags[0]!.begin.startsWith(one.trigger)).toBe(true);
});

test("thinking is reasoning_content, also where the prompt opened it, and a broken call is said to be one", async () => {
  const think = await startServer({
    tokenizer: tokenizerWith("</think><tool_call>"),
    contextLength: 4000,
    reply: () => "<think>\nHm.\n</think>\n\nYes. <tool_call>{oops</tool_call>",
  });
  const { choices } = (await (await think.post("/v1/chat/completions", body)).json()) as Whole;
  expect(choices[0]).toMatchObject({
    message: { content: "Yes.<tool_call>{oops</tool_call>", reasoning_content: "Hm." },
    malformed_tool_calls: 1,
    finish_reason: "stop",
  });
  await think.close();

  const opened = await startServer({
    tokenizer: tokenizerWith("</think>", "<think>\n"),
    contextLength: 4000,
    reply: () => "Hm.\n</think>\n\nYes.",
  });
  const { tools: _, ...plain } = body;
  const answer = (await (await opened.post("/v1/chat/completions", plain)).json()) as Whole;
  expect(answer.choices[0]!.message).toMatchObject({ content: "Yes.", reasoning_content: "Hm." });
  const stream = await (await opened.post("/v1/chat/completions", { ...plain, stream: true })).text();
  expect([...stream.matchAll(/"reasoning_content":"([^"]*)"/g)].map((found) => found[1]).join("")).toBe("Hm.");
  await opened.close();
});

interface Whole {
  readonly choices: readonly {
    readonly finish_reason: string;
    readonly message: {
      readonly content: string | null;
      readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: string } }[];
    };
  }[];
}
