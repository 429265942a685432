import { Worker } from "node:worker_threads";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { SymbolicPool, type SymbolicPoolOptions } from "./symbolic-pool.ts";

const pools: SymbolicPool[] = [];
const never = new AbortController().signal;

function open(options: Partial<SymbolicPoolOptions> = {}): SymbolicPool {
  const pool = new SymbolicPool({ numWorkers: 1, timeoutMs: 30_000, ...options });
  pools.push(pool);
  return pool;
}

/** A thread that answers `unknown`, hangs on "hang", dies on "die" and throws on "throw". */
function startFake(): Worker {
  const code = `
    const { parentPort } = require("node:worker_threads");
    parentPort.on("message", ({ left }) => {
      if (left === "hang") for (;;);
      if (left === "die") process.exit(3);
      if (left === "throw") throw new Error("no luck");
      parentPort.postMessage({ kind: "result", result: "unknown" });
    });
    parentPort.postMessage({ kind: "ready" });`;
  return new Worker(code, { eval: true, execArgv: [] });
}

afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.close()));
});

describe("computer algebra in a thread", () => {
  test.each([
    ["6", "\\sum_{k=1}^{3} k", "equal"],
    ["7", "\\sum_{k=1}^{3} k", "different"],
    ["24", "\\prod_{k=1}^{4} k", "equal"],
    ["6", "\\gcd(12, 18)", "equal"],
    ["\\frac{n ( n + 1 )}{2}", "\\sum_{k=1}^{n} k", "equal"],
    ["\\frac{n ( n - 1 )}{2}", "\\sum_{k=1}^{n} k", "different"],
    ["2^{100}", "2^{100} + \\sqrt{2} - \\sqrt{2}", "equal"],
    ["2^{100} + \\sqrt{3}", "2^{100} + \\sqrt{2}", "unknown"],
    ["5", "\\frac{", "unknown"],
    ["0", "10^{-400} \\pi", "unknown"],
    ["0", "\\sum_{k=-3}^{3} k", "equal"],
  ])("%s and %s: %s", async (left, right, verdict) => {
    expect(await shared().compare(left, right, never)).toBe(verdict);
  });

  test("a tower of powers is killed at its limit, and the pool goes on", async () => {
    const pool = open({ timeoutMs: 1_000 });
    await expect(pool.compare("9^{9^{9^9}}", "9^{9^{9^8}}", never)).rejects.toMatchObject({ code: "REWARD_TIMEOUT" });
    expect(await pool.compare("6", "\\gcd(12, 18)", never)).toBe("equal");
  });
});

let sharedPool: SymbolicPool | null = null;
function shared(): SymbolicPool {
  sharedPool ??= new SymbolicPool({ numWorkers: 1, timeoutMs: 30_000 });
  return sharedPool;
}

afterAll(() => sharedPool?.close());

describe("a thread that fails", () => {
  test("hangs: the comparison times out and those behind it get a new thread", async () => {
    const pool = open({ timeoutMs: 200, startWorker: startFake });
    const hanging = pool.compare("hang", "", never);
    const next = pool.compare("x", "", never);
    await expect(hanging).rejects.toMatchObject({ code: "REWARD_TIMEOUT", details: { left: "hang", timeoutMs: 200 } });
    expect(await next).toBe("unknown");
  });

  test.each(["die", "throw"])("%ss: the comparison rejects and the next one works", async (how) => {
    const pool = open({ startWorker: startFake });
    await expect(pool.compare(how, "", never)).rejects.toMatchObject({ code: "REWARD_CRASHED" });
    expect(await pool.compare("x", "", never)).toBe("unknown");
  });

  test("is asked to stop: the comparison rejects with the reason of the signal", async () => {
    const pool = open({ startWorker: startFake });
    const controller = new AbortController();
    const hanging = pool.compare("hang", "", controller.signal);
    const waiting = pool.compare("x", "", controller.signal);
    setTimeout(() => controller.abort(new Error("enough")), 100);
    await expect(hanging).rejects.toThrow("enough");
    await expect(waiting).rejects.toThrow("enough");
    expect(await pool.compare("x", "", never)).toBe("unknown");
  });

  test("never starts more threads than allowed", async () => {
    let numStarted = 0;
    const startWorker = () => {
      numStarted++;
      return startFake();
    };
    const pool = open({ numWorkers: 2, startWorker });
    const verdicts = await Promise.all(Array.from({ length: 20 }, () => pool.compare("x", "", never)));
    expect(verdicts).toEqual(Array.from({ length: 20 }, () => "unknown"));
    expect(numStarted).toBe(2);
  });
});

describe("close", () => {
  test("rejects what runs, what waits, and what comes after", async () => {
    const pool = open({ startWorker: startFake });
    const outcomes = Promise.allSettled([pool.compare("hang", "", never), pool.compare("x", "", never)]);
    await pool.close();
    expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    await expect(pool.compare("x", "", never)).rejects.toMatchObject({ code: "REWARD_CLOSED" });
  });
});
