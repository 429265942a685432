import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { RerollError } from "../../src/errors/reroll-error.ts";
import { startInProcess } from "../../src/workers/start-in-process.ts";
import { compileScript } from "../compile-script.ts";
import type { EchoHost } from "./echo-worker.ts";

const script = await compileScript(new URL("echo-worker.ts", import.meta.url));
const worker = new URL(pathToFileURL(script).href.replace(/\.js$/, ""));

const lost = (how: string) => new RerollError("WORKER_LOST", `The process ${how}.`);
const start = (from: number) => startInProcess<EchoHost>(worker, { start: from }, { lost });

test("a process is asked before it is there, gets bytes and callbacks, and its end rejects what waits", async () => {
  const echo = start(10);
  expect(await echo.ask.add(Uint8Array.of(1, 2, 3), async (sum) => 2 * sum)).toBe(32);
  await expect(echo.ask.end()).rejects.toThrow("The process ended with code 3.");
  await expect(echo.ask.add(Uint8Array.of(1), async (sum) => sum)).rejects.toThrow("ended with code 3");
});

test("what cannot be built says why", async () => {
  const echo = start(-1);
  await expect(echo.ready).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    message: "start must be 0 or more: got -1.",
  });
  await echo.end(lost("was ended"));
});

test("a process that is stopped is ended after the time that it may be silent, and one that computes is not", async () => {
  const heartbeat = { everyMs: 500, maxSilentBeats: 8 };
  const echo = startInProcess<EchoHost>(worker, { start: 0 }, { lost, heartbeat });
  // Longer than the limit, with no turn of its event loop in between.
  const busy = await echo.ask.compute(4500);
  process.kill(busy.pid, "SIGSTOP");
  await expect(echo.ask.compute(0)).rejects.toThrow("The process gave no sign of life for 4 seconds and was ended.");
});
