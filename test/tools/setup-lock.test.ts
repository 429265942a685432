/** The lock of the setup: one at a time, and never held by the dead. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

// Plain JavaScript, because it runs before anything is installed; so it is loaded without types.
const { isStale, withLock } = await import(new URL("../../scripts/setup/lock.mjs", import.meta.url).href);

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "reroll-setup-"));
});
afterEach(() => rmSync(root, { recursive: true }));

const quick = { pollMs: 5, heartbeatMs: 5, deadAfterMs: 20, abandonedAfterMs: 1_000 };
const lock = () => join(root, "build/setup.lock");

/** A lock as a setup leaves it that was killed some time ago. */
function leaveLock(owner: { pid: number; host: string }, secondsAgo: number): void {
  mkdirSync(lock(), { recursive: true });
  writeFileSync(join(lock(), "owner.json"), JSON.stringify({ ...owner, token: "another" }));
  const then = new Date(Date.now() - secondsAgo * 1000);
  utimesSync(lock(), then, then);
}

test("two setups run one after the other", async () => {
  const events: string[] = [];
  const work = (name: string) => async () => {
    events.push(`${name} starts`);
    await new Promise((resolve) => setTimeout(resolve, 30));
    events.push(`${name} ends`);
  };
  let waitedFor: number | null = null;
  const onWait = (pid: number) => {
    waitedFor = pid;
  };
  await Promise.all([withLock(lock(), work("a"), quick), withLock(lock(), work("b"), { ...quick, onWait })]);
  expect(events).toEqual(["a starts", "a ends", "b starts", "b ends"]);
  expect(waitedFor).toBe(process.pid);
  expect(existsSync(lock())).toBe(false);
});

test("work that fails frees the lock and hands its error on", async () => {
  const fail = () => Promise.reject(new Error("cmake failed"));
  await expect(withLock(lock(), fail, quick)).rejects.toThrow("cmake failed");
  expect(existsSync(lock())).toBe(false);
});

test("the lock of a process that is gone is taken over", async () => {
  const { pid } = spawnSync(process.execPath, ["-e", ""]);
  leaveLock({ pid, host: hostname() }, 1);
  expect(await withLock(lock(), async () => readFileSync(join(lock(), "owner.json"), "utf8"), quick)).toContain(
    `"pid":${process.pid}`,
  );
});

test("the lock of another machine is stale only when nobody has touched it for a minute", () => {
  leaveLock({ pid: 1, host: "elsewhere" }, 50);
  expect(isStale(lock())).toBe(false);
  leaveLock({ pid: 1, host: "elsewhere" }, 70);
  expect(isStale(lock())).toBe(true);
});

test("the lock of a running process is not stale", () => {
  leaveLock({ pid: process.pid, host: hostname() }, 50);
  expect(isStale(lock())).toBe(false);
});

test("of many that find a stale lock only one enters at a time", async () => {
  const { pid } = spawnSync(process.execPath, ["-e", ""]);
  leaveLock({ pid, host: hostname() }, 1);
  let inside = 0;
  let most = 0;
  const work = async () => {
    most = Math.max(most, ++inside);
    await new Promise((resolve) => setTimeout(resolve, 3));
    inside--;
  };
  await Promise.all(Array.from({ length: 8 }, () => withLock(lock(), work, quick)));
  expect(most).toBe(1);
});
