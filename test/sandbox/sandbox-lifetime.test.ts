/** Nothing outlives a sandbox: not after `close`, and not when the process that opened it is ended in any way. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { createPythonSandbox } from "../../src/sandbox/python-sandbox.ts";
import { compileScript } from "../compile-script.ts";
import { descendants, isAlive } from "./descendants.ts";
import { skipNote, skipReason } from "./python-availability.ts";

const script = await compileScript(new URL("hold-sandbox.ts", import.meta.url));

describe.skipIf(skipReason !== null)(`the processes of a python sandbox${skipNote}`, () => {
  test("are gone when close resolves, and runs that were not done reject", async () => {
    const before = descendants(process.pid);
    const sandbox = await createPythonSandbox({ numWorkers: 2 });
    const runs = [1, 2, 3, 4].map(() => sandbox.run({ code: "import os\nos.fork()\nwhile True: pass" }));
    const ends = Promise.allSettled(runs);
    await expect
      .poll(() => descendants(process.pid).length, { timeout: 10_000 })
      .toBeGreaterThanOrEqual(before.length + 8);
    await sandbox.close();
    expect(descendants(process.pid)).toEqual(before);
    for (const end of await ends) expect(end).toMatchObject({ status: "rejected", reason: { code: "SANDBOX_CLOSED" } });
    await expect(sandbox.run({ code: "" })).rejects.toMatchObject({ code: "SANDBOX_CLOSED" });
    await sandbox.close();
  });

  test.each(["SIGINT", "SIGTERM", "SIGKILL"] as const)("are gone when their parent gets %s", async (signal) => {
    const parent = spawn(process.execPath, [script], { stdio: ["ignore", "pipe", "inherit"] });
    await once(parent.stdout, "data");
    const children = descendants(parent.pid ?? -1);
    expect(children.length).toBeGreaterThanOrEqual(8);
    parent.kill(signal);
    await once(parent, "exit");
    await expect.poll(() => children.filter(isAlive), { timeout: 10_000 }).toEqual([]);
  });
});
