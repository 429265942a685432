/** What the Python sandbox promises programs that behave, and how the other ones end. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkSandbox, createPythonSandbox } from "../../src/sandbox/python-sandbox.ts";
import type { Sandbox, SandboxProgram, SandboxResult } from "../../src/sandbox/sandbox.ts";
import { descendants, isAlive } from "./descendants.ts";
import { skipNote, skipReason } from "./python-availability.ts";

describe.skipIf(skipReason !== null)(`python sandbox${skipNote}`, () => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    sandbox = await createPythonSandbox({ numWorkers: 1 });
  });
  afterAll(() => sandbox.close());

  const run = (code: string, more: Omit<SandboxProgram, "code"> = {}) => sandbox.run({ code, ...more });

  test("gives back what a program prints, writes to standard error and reports", async () => {
    const code = `import os, sys\nprint("out", input())\nprint("err", file=sys.stderr)\nos.write(3, b"report")`;
    const result = await run(code, { stdin: "in\n" });
    expect(result).toMatchObject({ kind: "ok", output: "out in\n", errorOutput: "err\n", report: "report" });
  });

  test("keeps text in other scripts whole, in code, input and output", async () => {
    expect(await run('print("ä" + input() + "語")', { stdin: "€🙂" })).toMatchObject({ output: "ä€🙂語\n" });
  });

  test.each([
    ["input()", "print(input(), input())"],
    ["sys.stdin", "import sys\nprint(*[line.strip() for line in sys.stdin])"],
    ["open(0)", "print(*open(0).read().split())"],
    ["/dev/stdin", "print(*open('/dev/stdin').read().split())"],
  ])("standard input can be read by %s", async (_, code) => {
    expect(await run(code, { stdin: "1\n2\n" })).toMatchObject({ kind: "ok", output: "1 2\n" });
  });

  test("a large standard input and a large output pass through", async () => {
    const stdin = "0123456789".repeat(80_000);
    expect(await run("print(input()[::-1], end='')", { stdin })).toMatchObject({
      kind: "ok",
      output: [...stdin].reverse().join(""),
    });
  });

  test("an uncaught error is failed, with the lines of the program in the trace", async () => {
    const result = await run("def half(x):\n    return x / 0\nhalf(1)\n");
    expect(result).toMatchObject({ kind: "failed" });
    expect(errorOf(result)).toContain('File "solution.py", line 2, in half\n    return x / 0');
    expect(errorOf(result)).toMatch(/ZeroDivisionError: division by zero$/);
    expect(errorOf(result)).not.toContain("<string>");
  });

  test.each([
    ["import sys; sys.exit()", "ok"],
    ["import sys; sys.exit(3)", "failed"],
    ["import sys; sys.exit('no')", "failed"],
    ["import os; os._exit(0)", "ok"],
    ["def f(:", "failed"],
    ["import no_such_module", "failed"],
    ["def f(): f()\nf()", "failed"],
    ["import os; os.abort()", "killed"],
    ["import ctypes; ctypes.string_at(0)", "killed"],
  ])("%j ends as %s", async (code, kind) => {
    expect(await run(code)).toMatchObject({ kind });
  });

  test("threads and exit functions run to their end", async () => {
    const code = `import atexit, threading\natexit.register(print, "bye")\nthreading.Thread(target=print, args=("thread",)).start()`;
    expect(await run(code)).toMatchObject({ kind: "ok", output: "thread\nbye\n" });
  });

  test("the part for the command line runs, and classes can be pickled", async () => {
    const code = `import pickle\nclass A: pass\nif __name__ == "__main__":\n    print(type(pickle.loads(pickle.dumps(A()))) is A)`;
    expect(await run(code)).toMatchObject({ output: "True\n" });
  });

  test("a program can use its own processes and threads within the limit", async () => {
    const code = `import multiprocessing\nwith multiprocessing.Pool(3) as pool: print(pool.map(abs, [-1, -2]))`;
    expect(await run(code)).toMatchObject({ kind: "ok", output: "[1, 2]\n" });
  });

  test("every run starts from the same state", async () => {
    const code = `import builtins, json, random, sys\nprint(random.random(), hash("a"), hasattr(builtins, "seen"), "seen" in sys.modules)
builtins.seen = 1; sys.modules["seen"] = json; json.loads = None; sys.path.clear()`;
    const [first, second] = [await run(code), await run(code)];
    expect(first.output).toMatch(/^0\.\d+ -?\d+ False False\n$/);
    expect(second).toEqual({ ...first, wallMs: second.wallMs });
  });

  test("an endless loop ends at the limit of wall time", async () => {
    const result = await run("while True:\n  try:\n    while True: pass\n  except BaseException: pass", {
      limits: { wallMs: 300 },
    });
    expect(result).toMatchObject({ kind: "timeout", output: "" });
    expect(result.wallMs).toBeGreaterThanOrEqual(300);
  });

  test("what was printed before the time was over is kept", async () => {
    const code = "print('before', flush=True)\nwhile True: pass";
    expect(await run(code, { limits: { wallMs: 300 } })).toMatchObject({ kind: "timeout", output: "before\n" });
  });

  test("output is cut at its limit, whichever way it goes", async () => {
    const limits = { outputBytes: 1000 };
    for (const way of ["1", "2", "3"]) {
      const result = await run(`import os\nwhile True: os.write(${way}, b"x" * 100)`, { limits });
      expect(result.kind).toBe("output-limit");
      expect(result.output.length + result.errorOutput.length + result.report.length).toBe(1001);
    }
    expect(await run("print('x' * 999)", { limits })).toMatchObject({ kind: "ok" });
    expect(await run("print('x' * 1000)", { limits })).toMatchObject({ kind: "output-limit" });
  });

  test("a worker that is killed is replaced, and its run is done again", async () => {
    await run("");
    const idle = descendants(process.pid).length;
    const slow = run("import time; time.sleep(0.5); print('done')");
    await expectEventually(() => descendants(process.pid).length > idle);
    for (const pid of descendants(process.pid)) kill(pid);
    expect(await slow).toMatchObject({ kind: "ok", output: "done\n" });
  });

  test("a worker that no longer answers is replaced, and its run is done again", async () => {
    await run("");
    const stuck = descendants(process.pid);
    for (const pid of stuck) process.kill(pid, "SIGSTOP");
    expect(await run("print('done')", { limits: { wallMs: 200 } })).toMatchObject({ kind: "ok", output: "done\n" });
    expect(stuck.filter(isAlive)).toEqual([]);
  });

  test("a run whose workers are killed twice rejects and says so", async () => {
    const own = await createPythonSandbox({ numWorkers: 1 });
    const others = new Set(descendants(process.pid));
    const slow = own.run({ code: "import time; time.sleep(60)" });
    const killer = setInterval(() => {
      for (const pid of descendants(process.pid)) if (!others.has(pid)) kill(pid);
    }, 50);
    for (const pid of others) kill(pid);
    await expect(slow).rejects.toMatchObject({ code: expect.stringMatching(/SANDBOX_FAILED|SANDBOX_UNAVAILABLE/) });
    clearInterval(killer);
    await own.close();
  });

  test("an aborted run rejects with the reason, and the next one works", async () => {
    const controller = new AbortController();
    const slow = sandbox.run({ code: "while True: pass" }, controller.signal);
    const waiting = sandbox.run({ code: "print(1)" }, controller.signal);
    setTimeout(() => controller.abort(new Error("enough")), 100);
    await expect(slow).rejects.toThrow("enough");
    await expect(waiting).rejects.toThrow("enough");
    expect(await run("print(2)")).toMatchObject({ output: "2\n" });
  });

  test("a fresh sandbox for each run gives the same results", async () => {
    const own = await createPythonSandbox({ numWorkers: 2, runsPerWorker: 1 });
    const results = await Promise.all([1, 2, 3, 4].map((n) => own.run({ code: `print(${n})` })));
    expect(results.map(({ output }) => output)).toEqual(["1\n", "2\n", "3\n", "4\n"]);
    await own.close();
  });

  test("packages that were asked for can be imported", async () => {
    const own = await createPythonSandbox({ numWorkers: 1, packages: [new URL("packages", import.meta.url).pathname] });
    expect(await own.run({ code: "import greeting; print(greeting.TEXT)" })).toMatchObject({ output: "hello\n" });
    await own.close();
  });

  test("packages below a folder that only its owner may enter can be imported too", async () => {
    const folder = mkdtempSync(join(tmpdir(), "closed-"));
    cpSync(new URL("packages", import.meta.url), join(folder, "packages"), { recursive: true });
    const own = await createPythonSandbox({ numWorkers: 1, packages: [join(folder, "packages")] });
    expect(await own.run({ code: "import greeting; print(greeting.TEXT)" })).toMatchObject({ output: "hello\n" });
    await own.close();
    rmSync(folder, { recursive: true });
  });
});

test.each([
  ["python", "/no/such/python3", "there is no /no/such/python3. Install it: apt-get install python3."],
  ["bubblewrap", "/no/such/bwrap", "there is no /no/such/bwrap. Install it: apt-get install bubblewrap."],
])("without %s, creating a sandbox throws and says what to do", async (option, path, reason) => {
  const options = { python: process.execPath, bubblewrap: process.execPath, [option]: path };
  const message = `The Python sandbox cannot run here: ${reason}`;
  await expect(createPythonSandbox(options)).rejects.toMatchObject({ code: "SANDBOX_UNAVAILABLE", message });
  expect(await checkSandbox(options)).toEqual({ isAvailable: false, reason: message });
});

test("a bubblewrap that fails is the reason, with what it said", async () => {
  const created = createPythonSandbox({ python: process.execPath, bubblewrap: process.execPath });
  await expect(created).rejects.toMatchObject({ code: "SANDBOX_UNAVAILABLE" });
  await expect(created).rejects.toThrow(/bad option: --unshare-user/);
});

function errorOf(result: SandboxResult): string {
  return "error" in result ? result.error : "";
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has just ended by itself.
  }
}

async function expectEventually(isTrue: () => boolean): Promise<void> {
  await expect.poll(isTrue, { timeout: 10_000, interval: 20 }).toBe(true);
}
