/** A program for sandbox-lifetime.test.ts: opens sandboxes, starts endless runs in them, says so, and waits for its end. */
import { createJavaScriptSandbox } from "../../src/sandbox/javascript-sandbox.ts";
import { createPythonSandbox } from "../../src/sandbox/python-sandbox.ts";

const python = await createPythonSandbox({ numWorkers: 2 });
const javascript = await createJavaScriptSandbox({ numWorkers: 1 });
const endless = "import os\nos.fork()\nwhile True: pass";
const limits = { wallMs: 600_000 };
void Promise.allSettled([
  python.run({ code: endless, limits }),
  python.run({ code: endless, limits }),
  javascript.run({ code: "for (;;);", limits }),
]);
setTimeout(() => process.stdout.write("running\n"), 500);
