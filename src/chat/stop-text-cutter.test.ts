import { expect, test } from "vitest";
import { StopTextCutter } from "./stop-text-cutter.ts";

test("text is cut before the first stop string, wherever the pieces end", () => {
  const text = "one two three four";
  for (const pieceLength of [1, 2, 5, 100]) {
    const cutter = new StopTextCutter(["three f", "two t", "zzz"]);
    let shown = "";
    for (let at = 0; at < text.length; at += pieceLength) shown += cutter.push(text.slice(at, at + pieceLength));
    expect(shown + cutter.end()).toBe("one ");
  }
});

test("a beginning of a stop string waits until it is certain", () => {
  const cutter = new StopTextCutter(["STOP"]);
  expect(["a", "S", "T", "x", "ST"].map((piece) => cutter.push(piece))).toEqual(["a", "", "", "STx", ""]);
  expect(cutter.end()).toBe("ST");
});
