import { expect, test } from "vitest";
import type { ReplyPart } from "./reply-part.ts";
import { type ToolCallFormatName, toolCallFormatIn, toolCallFormatOf, toolCallFormats } from "./table.ts";
import type { ToolCallFormat } from "./tool-call-format.ts";
import { ToolCallReader } from "./tool-call-reader.ts";

/** Reads a text in pieces of some length, and shows what came out. */
function read(
  name: ToolCallFormatName,
  text: string,
  pieceLength: number,
  types: Readonly<Record<string, string>> = {},
) {
  const reader = new ToolCallReader(
    () => "id",
    toolCallFormats[name],
    (_, argument) => types[argument] && { type: types[argument] },
  );
  const parts: ReplyPart[] = [];
  for (let at = 0; at < text.length; at += pieceLength) parts.push(...reader.push(text.slice(at, at + pieceLength)));
  parts.push(...reader.end());
  return {
    text: parts.map((part) => (part.kind === "text" ? part.text : "")).join(""),
    calls: parts.flatMap((part) => (part.kind === "tool-call" ? [Object.values(part.call.function).join("")] : [])),
    numBroken: reader.numBroken,
  };
}

const WRITTEN: readonly [ToolCallFormatName, text: string, shown: string, calls: string[]][] = [
  ["hermes", 'Well.\n<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>', "Well.", ['f{"x":1}']],
  [
    "qwen-xml",
    "Well.\n<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n<parameter=s>\na\nb <c>\n</parameter>\n</function>\n</tool_call>",
    "Well.",
    ['f{"x":1,"s":"a\\nb <c>"}'],
  ],
  [
    "qwen-xml",
    "<tool_call>\n<function=f>\n</function>\n</tool_call>\n<tool_call><function=g></function></tool_call>",
    "",
    ["f{}", "g{}"],
  ],
  ["llama-json", '{"name": "f", "parameters": {"x": "a;b"}}', "", ['f{"x":"a;b"}']],
  ["llama-json", '{"name": "f", "parameters": {}}; {"name": "g", "parameters": {"y": [1]}}', "", ["f{}", 'g{"y":[1]}']],
  ["llama-json", 'Use {"name": "f", "parameters": {}}', 'Use {"name": "f", "parameters": {}}', []],
  ["llama-json", '{"answer": 4}', '{"answer": 4}', []],
  [
    "pythonic",
    `[f(x=1, y='it\\'s', z=[1.5, None, True]), g(d={"k": "v"})]`,
    "",
    ['f{"x":1,"y":"it\'s","z":[1.5,null,true]}', 'g{"d":{"k":"v"}}'],
  ],
  ["pythonic", "[1, 2, 3]", "[1, 2, 3]", []],
  ["pythonic", "[f(x=open('a'))]", "[f(x=open('a'))]", []],
  ["mistral", '[TOOL_CALLS][{"name": "f", "arguments": {"x": 1}, "id": "abcdefghi"}]', "", ['f{"x":1}']],
  ["mistral", 'So: [TOOL_CALLS]f[ARGS]{"x": 1}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{}', "So:", ['f{"x": 1}', "g{}"]],
  [
    "gemma4",
    '<|tool_call>call:f{city:<|"|>S\u00e3o "P", x:1<|"|>,n:2,o:{a:true,l:[1,2]}}<tool_call|>',
    "",
    ['f{"city":"S\u00e3o \\"P\\", x:1","n":2,"o":{"a":true,"l":[1,2]}}'],
  ],
  [
    "function-gemma",
    "<start_function_call>call:f{city:<escape>Paris<escape>}<end_function_call>",
    "",
    ['f{"city":"Paris"}'],
  ],
  ["harmony", '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": 1}<|call|>', "", ['f{"x": 1}']],
  ["harmony", '<|channel|>commentary to=functions.f<|message|>{"x": 1}', "", ['f{"x": 1}']],
];

test.each(WRITTEN)("%s: %s", (name, text, shown, calls) => {
  for (const pieceLength of [1, 3, 1000])
    expect(read(name, text, pieceLength)).toEqual({ text: shown, calls, numBroken: 0 });
  if (calls.length > 0) expect(toolCallFormatIn(text)).toBe(name);
});

const BROKEN: readonly [ToolCallFormatName, text: string][] = [
  ["hermes", '<tool_call>{"name": "f", "arguments": {</tool_call>'],
  ["qwen-xml", "<tool_call><function=f><parameter=x>1</function></tool_call>"],
  ["mistral", "[TOOL_CALLS]f(1)"],
  ["gemma4", "<|tool_call>call:f{x:}<tool_call|>"],
  ["harmony", "<|channel|>commentary to=functions.f<|message|>{oops<|call|>"],
];

test.each(BROKEN)("a %s call that cannot be read is shown as it was written, and counted", (name, text) => {
  for (const pieceLength of [1, 1000]) expect(read(name, text, pieceLength)).toEqual({ text, calls: [], numBroken: 1 });
});

test.each(Object.keys(toolCallFormats) as ToolCallFormatName[])("a forced %s call is read as it is framed", (name) => {
  const { frame }: ToolCallFormat = toolCallFormats[name];
  const [before, after] = frame.around ?? ["", ""];
  const call = (tool: string, given: object) => `${frame.begin(tool)}${JSON.stringify(given)}${frame.end}`;
  const given = { city: 'a "b", c: {d}', n: 1.5, list: [true, null] };
  const one = read(name, before + call("f", given) + after, 7);
  expect(one.calls.map((text) => JSON.parse(text.slice(1)))).toEqual([given]);
  if (frame.between === null) return;
  const two = read(name, before + call("f", given) + frame.between + call("g", {}) + after, 7);
  expect(two.calls).toHaveLength(2);
});

test("bare arguments are what the tool's schema says, and are guessed where there is none", () => {
  const text =
    "<tool_call><function=f><parameter=zip>01234</parameter><parameter=n>7</parameter></function></tool_call>";
  expect(read("qwen-xml", text, 5, { zip: "string", n: "integer" }).calls).toEqual(['f{"zip":"01234","n":7}']);
  expect(read("qwen-xml", text, 5).calls).toEqual(['f{"zip":"01234","n":7}']);
});

test("the format is recognized from the template, and Hermes' is taken where it shows none", () => {
  const of = (template: string) => toolCallFormatOf({ chatTemplates: new Map([["default", template]]) });
  expect(of("{{ '<tool_call>\\n<function=' ~ name ~ '>\\n<parameter=' }}")).toBe("qwen-xml");
  expect(of("{{ '<tool_call>' }}")).toBe("hermes");
  expect(of("{{ '{\"name\": \"' + name + '\", ' }}{{ '\"parameters\": ' }}")).toBe("llama-json");
  expect(of("Put them as [func_name1(params_name1=params_value1), func_name2(params)]")).toBe("pythonic");
  expect(of("{{ '[TOOL_CALLS][' }}")).toBe("mistral");
  expect(of("{{ '<|tool_call>call:' + name }}")).toBe("gemma4");
  expect(of("{{ '<|channel|>commentary to=functions.' }}")).toBe("harmony");
  expect(of("{{ messages }}")).toBe("hermes");
});
