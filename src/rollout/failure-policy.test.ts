import { getEventListeners } from "node:events";
import { runInNewContext } from "node:vm";
import { expect, test, vi } from "vitest";
import { attempt, type Wait } from "./failure-policy.ts";

test("work that answers at once is done without a timer or a listener", async () => {
  const timer = vi.spyOn(globalThis, "setTimeout");
  const wait = waitOf();
  const done = attempt(wait, () => 7);
  expect([timer.mock.calls.length, getEventListeners(wait.signal, "abort").length]).toEqual([0, 0]);
  timer.mockRestore();
  expect(await done).toEqual({ kind: "done", value: 7 });
  expect(wait.stop.signal.aborted).toBe(false);
});

test("work that answers later is done, and leaves no listener and an open signal", async () => {
  const wait = waitOf();
  const done = attempt(wait, async () => 7);
  expect(getEventListeners(wait.signal, "abort")).toHaveLength(1);
  expect(await done).toEqual({ kind: "done", value: 7 });
  expect(getEventListeners(wait.signal, "abort")).toHaveLength(0);
  expect(wait.stop.signal.aborted).toBe(false);
});

test("a promise of another realm is waited for like any other", async () => {
  const foreign: Promise<number> = runInNewContext("new Promise((resolve) => resolve(3))");
  expect(foreign instanceof Promise).toBe(false);
  expect(await attempt(waitOf(), () => foreign)).toEqual({ kind: "done", value: 3 });
});

test.each([
  ["at once", () => 1],
  ["later", async () => 1],
])("an answer %s that the check refuses is a failure with the name of the work", async (_, work) => {
  const refuse = () => {
    throw new Error("too small");
  };
  expect(await attempt<number>(waitOf(), work, refuse)).toMatchObject({
    kind: "failed",
    stage: "environment",
    error: { code: "FAILED", message: "Step failed: too small" },
  });
});

test("work that throws at once is a failure", async () => {
  const thrown = attempt(waitOf(), () => {
    throw "nothing";
  });
  expect(await thrown).toMatchObject({ kind: "failed", error: { message: "Step failed: nothing" } });
});

test("work that hangs is given up after the time limit and told to stop", async () => {
  const wait = waitOf({ timeoutMs: 5 });
  let given: AbortSignal | undefined;
  const late = await attempt(wait, (signal) => {
    given = signal;
    return new Promise<number>(() => {});
  });
  expect(late).toMatchObject({
    kind: "failed",
    error: { code: "TIMEOUT", message: "Step did not answer within 5 ms." },
  });
  expect([given === wait.stop.signal, given?.aborted]).toEqual([true, true]);
  expect(getEventListeners(wait.signal, "abort")).toHaveLength(0);
});

test("an abort gives up work that hangs, tells it to stop, and nothing starts after it", async () => {
  const outer = new AbortController();
  const wait = waitOf({ signal: outer.signal });
  const running = attempt(wait, () => new Promise<number>(() => {}));
  outer.abort();
  expect(wait.stop.signal.aborted).toBe(true);
  expect(await running).toEqual({ kind: "aborted" });
  let hasStarted = false;
  const next = await attempt(wait, () => {
    hasStarted = true;
  });
  expect([next, hasStarted]).toEqual([{ kind: "aborted" }, false]);
});

function waitOf(changes: Partial<Wait> = {}): Wait {
  const never = new AbortController().signal;
  return {
    stage: "environment",
    name: "Step",
    timeoutMs: 60_000,
    signal: never,
    stop: new AbortController(),
    ...changes,
  };
}
