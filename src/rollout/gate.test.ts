import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { Gate } from "./gate.ts";

test("whenOpen waits until the gate opens, and leaves no listener", async () => {
  const gate = new Gate();
  const { signal } = new AbortController();
  gate.close();
  let isThrough = false;
  const waiting = gate.whenOpen(signal).then(() => {
    isThrough = true;
  });
  await Promise.resolve();
  expect([isThrough, getEventListeners(signal, "abort").length]).toEqual([false, 1]);
  gate.open();
  await waiting;
  expect([isThrough, getEventListeners(signal, "abort").length]).toEqual([true, 0]);
});

test("an abort frees who waits although the gate stays closed", async () => {
  const gate = new Gate();
  const controller = new AbortController();
  gate.close();
  const waiting = gate.whenOpen(controller.signal);
  controller.abort();
  await waiting;
  expect(gate.isOpen).toBe(false);
  await gate.whenOpen(controller.signal);
});

test("listeners hear every closing once, until they are taken away", () => {
  const gate = new Gate();
  let numHeard = 0;
  const unlisten = gate.onClose(() => numHeard++);
  gate.close();
  gate.close();
  gate.open();
  gate.open();
  gate.close();
  expect(numHeard).toBe(2);
  unlisten();
  gate.open();
  gate.close();
  expect(numHeard).toBe(2);
});
