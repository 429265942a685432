import { expect, test } from "vitest";
import { copyData } from "./copy-data.ts";

test("plain data is copied all the way down", () => {
  const prompt = { id: "a", messages: [{ role: "user", content: null }], truth: [1, [2]], extra: { seen: true } };
  const copy = copyData(prompt);
  expect(copy).toEqual(prompt);
  copy.messages[0]!.role = "system";
  (copy.truth[1] as number[]).push(3);
  copy.extra.seen = false;
  expect(prompt).toEqual({
    id: "a",
    messages: [{ role: "user", content: null }],
    truth: [1, [2]],
    extra: { seen: true },
  });
});

test("what is not plain data is copied as structuredClone does, or refused as it does", () => {
  const when = { at: new Date(7), words: new Map([["a", [1]]]) };
  const copy = copyData(when);
  expect(copy).toEqual(when);
  expect(copy.words.get("a")).not.toBe(when.words.get("a"));
  expect(() => copyData({ call: () => 1 })).toThrow(/could not be cloned/);
});

test("data that holds itself, and a field named __proto__, stay what they are", () => {
  const ring: { next?: unknown } = {};
  ring.next = ring;
  const copy = copyData(ring);
  expect(copy.next).toBe(copy);
  const odd = copyData(JSON.parse('{"__proto__":{"isAdmin":true}}') as object);
  expect(Object.keys(odd)).toEqual(["__proto__"]);
  expect(Object.getPrototypeOf(odd)).toBe(Object.prototype);
});

test("what is held twice is held twice by the copy, and costs no more than once", () => {
  const right = { text: "b" };
  const copy = copyData({ choices: [{ text: "a" }, right], right });
  expect(copy.choices.indexOf(copy.right)).toBe(1);
  expect(copy.right).not.toBe(right);
  // Copied part by part, thirty levels of this would be a thousand million objects.
  let pair: object = {};
  for (let level = 0; level < 30; level++) pair = { left: pair, right: pair };
  const deep = copyData(pair) as { left: object; right: object };
  expect(deep.left).toBe(deep.right);
});

test("lists keep their holes and what stands beside their items", () => {
  const match = /b(.)/.exec("abc")!;
  expect(copyData([match])[0]!.index).toBe(1);
  const sparse: number[] = [];
  sparse[1] = 1;
  expect(0 in copyData(sparse)).toBe(false);
  const odd = Object.assign([...sparse], { unit: "ms" });
  delete odd[0];
  expect(copyData(odd).unit).toBe("ms");
});
