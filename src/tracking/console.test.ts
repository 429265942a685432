import { stripVTControlCharacters } from "node:util";
import { expect, test, vi } from "vitest";
import { openConsole } from "./console.ts";
import { startState, withRecord } from "./console-state.ts";

function fakeStream(columns?: number) {
  const written: string[] = [];
  const stream = { isTTY: columns !== undefined, columns, rows: 40, write: (text: string) => written.push(text) };
  return { stream: stream as unknown as NodeJS.WriteStream, written };
}

const start = startState({ name: "first", folder: "runs/first", startStep: 0, numSteps: 4 }, 0);
const stepped = withRecord(start, { step: 1, timeMs: 1000, kind: "train", metrics: { "reward/mean": 0.5 } });

test("without a terminal there are lines, and a summary at the end", () => {
  const { stream, written } = fakeStream();
  let state = start;
  const view = openConsole(
    () => state,
    () => 2000,
    { stream, next: (status) => [`go on after ${status}`] },
  );
  view.step("step 1/4");
  view.note("hello");
  state = { ...stepped, status: "finished" };
  view.close();
  expect(written).toEqual([
    "step 1/4\n",
    "hello\n",
    "first finished\nsteps     1/4, 1 step in 2 s\nreward    0.5 at first, 0.5 at last\nrun       runs/first\nnext      go on after finished\n",
  ]);
});

test("on a terminal the view is drawn over, lines that stay go above it, and it is gone at the end", () => {
  vi.useFakeTimers();
  try {
    const { stream, written } = fakeStream(61);
    let state = start;
    const view = openConsole(
      () => state,
      () => 2000,
      { stream, isLive: true },
    );
    expect(written.join("")).toContain("step 0/4");
    view.step("a line that the view shows anyway");
    state = stepped;
    vi.advanceTimersByTime(300);
    expect(written.join("")).toContain("step 1/4");
    expect(written.join("")).not.toContain("shows anyway");
    view.note("hello");
    expect(written.join("")).toContain("hello");
    view.close();
    const numWritten = written.length;
    vi.advanceTimersByTime(1000);
    expect(written).toHaveLength(numWritten);
    expect(stripVTControlCharacters(written.at(-1) ?? "")).toContain("steps     1/4, 1 step in 2 s");
  } finally {
    vi.useRealTimers();
  }
});

test("an error of the terminal's width does not happen: a tiny one gets 40 columns", () => {
  const { stream, written } = fakeStream(5);
  openConsole(
    () => stepped,
    () => 2000,
    { stream, isLive: true },
  ).close();
  expect(written.join("")).toContain("first");
});
