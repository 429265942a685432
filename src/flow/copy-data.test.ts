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
