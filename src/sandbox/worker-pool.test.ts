import { expect, test } from "vitest";
import type { SandboxProgram, SandboxResult } from "./sandbox.ts";
import { createWorkerPool, type SandboxWorker, workerLost } from "./worker-pool.ts";

/** A worker whose runs end when the test says so. `log` holds what happened, in order. */
class FakeWorkers {
  readonly log: string[] = [];
  readonly runs: { readonly code: string; readonly end: (output: string) => void; readonly lose: () => void }[] = [];
  /** The worker that was started last ends by itself. */
  end = (): void => {};
  #numStarted = 0;

  readonly start = async (): Promise<SandboxWorker> => {
    const name = `worker ${++this.#numStarted}`;
    this.log.push(`${name} starts`);
    let lose = () => {};
    let hasEnded = false;
    this.end = () => {
      hasEnded = true;
    };
    return {
      hasEnded: () => hasEnded,
      run: (program: SandboxProgram) =>
        new Promise<SandboxResult>((resolve, reject) => {
          this.log.push(`${name} runs ${program.code}`);
          lose = () => reject(workerLost("stopped"));
          const end = (output: string) => resolve({ kind: "ok", output, errorOutput: "", report: "", wallMs: 1 });
          this.runs.push({ code: program.code, end, lose });
        }),
      stop: async () => {
        this.log.push(`${name} stops`);
        lose();
      },
    };
  };
}

const defaults = { numWorkers: 1, runsPerWorker: 100, maxQueued: 10 };

test("programs wait for a free worker, in the order of the calls", async () => {
  const workers = new FakeWorkers();
  const pool = await createWorkerPool({ ...defaults, start: workers.start });
  const results = ["a", "b", "c"].map((code) => pool.run({ code }));
  await settle();
  for (let index = 0; index < 3; index++) {
    expect(workers.runs.length).toBe(index + 1);
    workers.runs[index]?.end(`${index}`);
    await settle();
  }
  expect((await Promise.all(results)).map(({ output }) => output)).toEqual(["0", "1", "2"]);
  expect(workers.log).toEqual(["worker 1 starts", "worker 1 runs a", "worker 1 runs b", "worker 1 runs c"]);
  await pool.close();
});

test("no more workers start than are allowed, and none before it is needed", async () => {
  const workers = new FakeWorkers();
  const pool = await createWorkerPool({ ...defaults, numWorkers: 2, start: workers.start });
  expect(workers.log).toEqual(["worker 1 starts"]);
  const ends = Promise.allSettled(["a", "b", "c"].map((code) => pool.run({ code })));
  await settle();
  expect(workers.log.filter((line) => line.includes("starts"))).toEqual(["worker 1 starts", "worker 2 starts"]);
  expect(workers.runs.map(({ code }) => code)).toEqual(["a", "b"]);
  await pool.close();
  expect((await ends).map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  expect(workers.log).toEqual(expect.arrayContaining(["worker 1 stops", "worker 2 stops"]));
});

test("a worker is replaced when it has run its share", async () => {
  const workers = new FakeWorkers();
  const pool = await createWorkerPool({ ...defaults, runsPerWorker: 2, start: workers.start });
  for (const code of ["a", "b", "c"]) {
    const result = pool.run({ code });
    await settle();
    workers.runs.at(-1)?.end("");
    await result;
  }
  expect(workers.log.slice(0, 6)).toEqual([
    "worker 1 starts",
    "worker 1 runs a",
    "worker 1 runs b",
    "worker 1 stops",
    "worker 2 starts",
    "worker 2 runs c",
  ]);
  await pool.close();
});

test("a program whose worker breaks runs once more, and rejects the second time", async () => {
  const workers = new FakeWorkers();
  const pool = await createWorkerPool({ ...defaults, start: workers.start });
  const lucky = pool.run({ code: "lucky" });
  await settle();
  workers.runs[0]?.lose();
  await settle();
  workers.runs[1]?.end("fine");
  expect(await lucky).toMatchObject({ output: "fine" });
  const unlucky = pool.run({ code: "unlucky" });
  const rejection = expect(unlucky).rejects.toMatchObject({ code: "SANDBOX_FAILED" });
  await settle();
  workers.runs[2]?.lose();
  await settle();
  workers.runs[3]?.lose();
  await rejection;
  await pool.close();
});

test("a worker that ends between two programs, or with a result, is replaced", async () => {
  const workers = new FakeWorkers();
  const pool = await createWorkerPool({ ...defaults, start: workers.start });
  workers.end();
  const first = pool.run({ code: "a" });
  await settle();
  workers.end();
  workers.runs[0]?.end("1");
  expect(await first).toMatchObject({ output: "1" });
  const second = pool.run({ code: "b" });
  await settle();
  workers.runs[1]?.end("2");
  expect(await second).toMatchObject({ output: "2" });
  expect(workers.log).toEqual([
    "worker 1 starts",
    "worker 1 stops",
    "worker 2 starts",
    "worker 2 runs a",
    "worker 2 stops",
    "worker 3 starts",
    "worker 3 runs b",
  ]);
  await pool.close();
});

test("more programs than may wait are refused", async () => {
  const workers = new FakeWorkers();
  const pool = await createWorkerPool({ ...defaults, maxQueued: 1, start: workers.start });
  const ends = Promise.allSettled([pool.run({ code: "runs" }), pool.run({ code: "waits" })]);
  await expect(pool.run({ code: "refused" })).rejects.toMatchObject({ code: "QUEUE_FULL" });
  await pool.close();
  await ends;
});

test("a program that is aborted while it waits never runs, and the one after it does", async () => {
  const workers = new FakeWorkers();
  const pool = await createWorkerPool({ ...defaults, start: workers.start });
  const controller = new AbortController();
  const first = pool.run({ code: "first" });
  const second = pool.run({ code: "second" }, controller.signal);
  const third = pool.run({ code: "third" });
  await settle();
  controller.abort(new Error("no longer"));
  await expect(second).rejects.toThrow("no longer");
  workers.runs[0]?.end("1");
  await settle();
  workers.runs[1]?.end("3");
  expect([(await first).output, (await third).output]).toEqual(["1", "3"]);
  expect(workers.runs.map(({ code }) => code)).toEqual(["first", "third"]);
  await pool.close();
});

async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}
