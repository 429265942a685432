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
