/**
 * One setup at a time per checkout: a lock folder, made by an atomic mkdir.
 *
 * Waits for: the holder, for as long as it shows signs of life. Is freed by: the end of the work, the end of the
 * process, or, after a crash, by the next one that waits. The holder touches the folder every second; a lock is
 * stale when its process is gone and the folder untouched for a few seconds (a process of another container looks
 * gone too, but still touches it), or when nobody touched it for a minute.
 */
import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const DEFAULT_TIMES = { pollMs: 200, heartbeatMs: 1_000, deadAfterMs: 5_000, abandonedAfterMs: 60_000 };

/** Runs `work` while holding the lock. `onWait` is called once, with the holder's process id or null, before a wait. */
export async function withLock(folder, work, { onWait = () => {}, ...times } = {}) {
  const { pollMs, heartbeatMs, ...limits } = { ...DEFAULT_TIMES, ...times };
  const token = randomUUID();
  mkdirSync(dirname(folder), { recursive: true });
  let hasReported = false;
  while (!tryAcquire(folder, token)) {
    if (removeStale(folder, limits)) continue;
    if (!hasReported) onWait(readOwner(folder)?.pid ?? null);
    hasReported = true;
    await sleep(pollMs);
  }
  const heartbeat = setInterval(() => touch(folder), heartbeatMs).unref();
  const release = () => releaseLock(folder, token);
  process.once("exit", release);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    process.off("exit", release);
    release();
  }
}

/** Whether the holder is gone; false too when the lock is free. */
export function isStale(folder, { deadAfterMs, abandonedAfterMs } = DEFAULT_TIMES) {
  const untouchedMs = ageMs(folder);
  if (untouchedMs === null) return false;
  const owner = readOwner(folder);
  const isGone = owner !== null && owner.host === hostname() && !isRunning(owner.pid);
  return untouchedMs > (isGone ? deadAfterMs : abandonedAfterMs);
}

function tryAcquire(folder, token) {
  if (!tryMkdir(folder)) return false;
  writeFileSync(join(folder, "owner.json"), JSON.stringify({ pid: process.pid, host: hostname(), token }));
  return true;
}

/**
 * Removes a stale lock. Of several waiters only the one that holds the removal folder may look and remove;
 * without that, a slow waiter could delete the fresh lock of a quick one.
 */
function removeStale(folder, limits) {
  if (!isStale(folder, limits)) return false;
  const removal = `${folder}.removal`;
  if ((ageMs(removal) ?? 0) > limits.abandonedAfterMs) rmSync(removal, { recursive: true, force: true });
  if (!tryMkdir(removal)) return false;
  try {
    if (!isStale(folder, limits)) return false;
    rmSync(folder, { recursive: true, force: true });
    return true;
  } finally {
    rmSync(removal, { recursive: true, force: true });
  }
}

function releaseLock(folder, token) {
  if (readOwner(folder)?.token === token) rmSync(folder, { recursive: true, force: true });
}

function tryMkdir(folder) {
  try {
    mkdirSync(folder);
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  }
}

function readOwner(folder) {
  try {
    return JSON.parse(readFileSync(join(folder, "owner.json"), "utf8"));
  } catch {
    return null;
  }
}

function ageMs(folder) {
  const status = statSync(folder, { throwIfNoEntry: false });
  return status === undefined ? null : Date.now() - status.mtimeMs;
}

function touch(folder) {
  const now = new Date();
  try {
    utimesSync(folder, now, now);
  } catch {
    // The folder was taken away by hand; the work goes on and the release finds nothing to remove.
  }
}

function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}
