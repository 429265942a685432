import { expect, test } from "vitest";
import { hermes } from "./hermes.ts";
import type { ReplyPart } from "./reply-part.ts";
import { ToolCallReader } from "./tool-call-reader.ts";

/** Reads a text in pieces of some length, and shows what came out. */
function read(text: string, pieceLength: number): { text: string; calls: string[] } {
  let numIds = 0;
  const reader = new ToolCallReader(() => `id${numIds++}`, hermes);
  const parts: ReplyPart[] = [];
  for (let at = 0; at < text.length; at += pieceLength) parts.push(...reader.push(text.slice(at, at + pieceLength)));
  parts.push(...reader.end());
  return {
    text: parts.map((part) => (part.kind === "text" ? part.text : "")).join(""),
    calls: parts.flatMap((part) =>
      part.kind === "tool-call" ? [`${part.call.function.name}${part.call.function.arguments}`] : [],
    ),
  };
}

const CASES: readonly [what: string, text: string, shown: string, calls: string[]][] = [
  ["plain text", "Hello  world \n", "Hello  world \n", []],
  ["a call alone", '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>', "", ['f{"x":1}']],
  [
    "text before a call loses the white space between",
    'Well. \n\n<tool_call>{"name": "f"}</tool_call>',
    "Well.",
    ["f{}"],
  ],
  [
    "two calls",
    '<tool_call>{"name":"f"}</tool_call>\n<tool_call>{"name":"g","arguments":"{}"}</tool_call>',
    "",
    ["f{}", "g{}"],
  ],
  ["text after a call", '<tool_call>{"name":"f"}</tool_call>\n then < this <tool', "then < this <tool", ["f{}"]],
  ["a call without an end that is complete", '<tool_call>{"name":"f","arguments":{}}', "", ["f{}"]],
  ["a call that was cut off is text", 'a <tool_call>{"name":"f', 'a<tool_call>{"name":"f', []],
  ["what is not JSON is text", "<tool_call>f(1)</tool_call>", "<tool_call>f(1)</tool_call>", []],
  ["JSON without a name is text", '<tool_call>{"x":1}</tool_call>!', '<tool_call>{"x":1}</tool_call>!', []],
  ["an end without a start is text", "so </tool_call>", "so </tool_call>", []],
];

test.each(CASES)("%s", (_what, text, shown, calls) => {
  for (const pieceLength of [1, 2, 3, 7, 1000]) expect(read(text, pieceLength)).toEqual({ text: shown, calls });
});

test("plain text is shown at once, and only what may be a tag waits", () => {
  const reader = new ToolCallReader(() => "id", hermes);
  const texts = ["Hel", "lo", " <", "b> <tool_", "box>"].map((piece) => reader.push(piece));
  expect(texts).toEqual([
    [{ kind: "text", text: "Hel" }],
    [{ kind: "text", text: "lo" }],
    [],
    [{ kind: "text", text: " <b>" }],
    [{ kind: "text", text: " <tool_box>" }],
  ]);
});
