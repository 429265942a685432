import { expect, test } from "vitest";
import { ThinkingReader, thinkingTagsOf } from "./thinking.ts";

function read(template: string, text: string, pieceLength: number, isOpen = false): [string, string] {
  const reader = new ThinkingReader(thinkingTagsOf(template)!, isOpen);
  const pieces: ReturnType<ThinkingReader["push"]>[number][] = [];
  for (let at = 0; at < text.length; at += pieceLength) pieces.push(...reader.push(text.slice(at, at + pieceLength)));
  pieces.push(...reader.end());
  const of = (kind: string) => pieces.map((piece) => (piece.kind === kind ? piece.text : "")).join("");
  return [of("reasoning"), of("text")];
}

const THINK = "{{ content.split('</think>') }}";
const HARMONY = "{{ '<|channel|>analysis<|message|>' }}";

test.each([
  [THINK, "<think>\nSo  be\nit.\n</think>\n\nYes  <b>.", false, ["So  be\nit.", "Yes  <b>."]],
  [THINK, "Hm.\n</think>\n\nYes.", true, ["Hm.", "Yes."]],
  [THINK, "Plain < text <thin", false, ["", "Plain < text <thin"]],
  [THINK, "<think>cut off", false, ["cut off", ""]],
  [
    HARMONY,
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
    false,
    ["Hm.", "Yes."],
  ],
] as const)("%s: %j", (template, text, isOpen, expected) => {
  for (const pieceLength of [1, 4, 1000]) expect(read(template, text, pieceLength, isOpen)).toEqual(expected);
});

test("a template that knows no thinking has no tags", () => {
  expect(thinkingTagsOf("{{ messages }}")).toBeUndefined();
});
