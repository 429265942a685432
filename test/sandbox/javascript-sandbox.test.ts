/** What the JavaScript sandbox promises, and what programs that try to get out of it find. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createJavaScriptSandbox } from "../../src/sandbox/javascript-sandbox.ts";
import type { Sandbox, SandboxProgram } from "../../src/sandbox/sandbox.ts";

describe("javascript sandbox", () => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    sandbox = await createJavaScriptSandbox({ numWorkers: 1, limits: { memoryBytes: 2 ** 25 } });
  });
  afterAll(() => sandbox.close());

  const run = (code: string, more: Omit<SandboxProgram, "code"> = {}) => sandbox.run({ code, ...more });

  test("gives back what a program prints, writes to standard error and reports", async () => {
    const code = `console.log("out", [1, { a: 2 }], -0, null); console.error("err"); process.stdout.write("end"); report("r");`;
    expect(await run(code)).toMatchObject({
      kind: "ok",
      output: 'out [1,{"a":2}] -0 null\nend',
      errorOutput: "err\n",
      report: "r",
    });
  });

  test.each([
    ["readFileSync", `console.log(require("fs").readFileSync(0, "utf8").split("\\n").map(Number))`, "[1,2,0]\n"],
    ["/dev/stdin", `console.log(require("node:fs").readFileSync("/dev/stdin").length)`, "4\n"],
    [
      "process.stdin",
      `let all = ""; process.stdin.on("data", (part) => { all += part; }); process.stdin.on("end", () => console.log(all.length));`,
      "4\n",
    ],
    [
      "readline",
      `let sum = 0; require("readline").createInterface({ input: process.stdin }).on("line", (line) => { sum += Number(line); }).on("close", () => console.log(sum));`,
      "3\n",
    ],
    [
      "for await",
      `(async () => { for await (const line of require("readline").createInterface({})) console.log(line); })()`,
      "1\n2\n",
    ],
  ])("standard input can be read by %s", async (_, code, output) => {
    expect(await run(code, { stdin: "1\n2\n" })).toMatchObject({ kind: "ok", output });
  });

  test.each([
    ["throw new TypeError('no')", { kind: "failed", error: expect.stringContaining("TypeError: no") }],
    ["throw 'text'", { kind: "failed", error: "text" }],
    ["throw undefined", { kind: "failed" }],
    ["let = 1 +", { kind: "failed", error: expect.stringContaining("SyntaxError") }],
    [
      "(async () => { await null; throw new Error('late') })()",
      { kind: "failed", error: expect.stringContaining("late") },
    ],
    ["const f = () => f(); f()", { kind: "failed", error: expect.stringContaining("stack overflow") }],
    ["JSON.parse('['.repeat(1e6))", { kind: "failed" }],
    ["process.exit(1)", { kind: "failed" }],
    ["process.exit(0)", { kind: "ok" }],
    ["'x'.repeat(2 ** 28)", { kind: "memory" }],
    ["const all = []; for (;;) all.push(new Uint8Array(1e6))", { kind: "memory" }],
  ])("%j ends as it should, and the next program works", async (code, expected) => {
    expect(await run(code)).toMatchObject(expected);
    expect(await run("console.log(1)")).toMatchObject({ kind: "ok", output: "1\n" });
  });

  test.each([
    "for (;;);",
    "for (;;) try { for (;;); } catch {}",
    "/(a+)+$/.test('a'.repeat(40) + 'b')",
    "const later = () => Promise.resolve().then(later); later()",
    "new Array(1e7).fill(0).sort(() => { for (;;); })",
  ])("%j ends at the limit of time", async (code) => {
    expect(["timeout", "memory"]).toContain((await run(code, { limits: { wallMs: 300 } })).kind);
    expect(await run("console.log(1)")).toMatchObject({ kind: "ok", output: "1\n" });
  });

  test("output is cut at its limit", async () => {
    const result = await run("for (;;) console.log('x'.repeat(100))", { limits: { outputBytes: 1000 } });
    expect(result.kind).toBe("output-limit");
    expect(result.output.length).toBe(1001);
    expect((await run("console.log('x'.repeat(5000000))")).output.length).toBe(2 ** 20 + 1);
  });

  test("a program finds nothing of Node, by name or by constructors", async () => {
    const names = [
      "Buffer",
      "fetch",
      "WebAssembly",
      "SharedArrayBuffer",
      "setTimeout",
      "std",
      "os",
      "Worker",
      "module",
      "__dirname",
    ];
    const code = `console.log(${names.map((name) => `typeof ${name}`).join(", ")});
const reach = (text) => { try { return typeof Function("return " + text)(); } catch (error) { return "error"; } };
console.log(reach("process.binding"), reach("process.mainModule"), reach("this.constructor.constructor('return process.versions')()"), reach("report.constructor('return globalThis.process.env.PATH')()"));
for (const name of ["child_process", "net", "worker_threads", "/etc/passwd"]) { try { require(name); console.log("not held", name); } catch {} }
try { require("fs").readFileSync("/etc/passwd"); console.log("not held"); } catch {}
import("fs").then(() => console.log("not held"), () => console.log("no import"));`;
    const { output } = await run(code);
    expect(output).toBe(`${names.map((name) => (name === "SharedArrayBuffer" ? "function" : "undefined")).join(" ")}
undefined undefined undefined undefined
no import
`);
  });

  test("programs do not see each other", async () => {
    await run(
      "globalThis.left = 1; Array.prototype.left = 2; Object.prototype.left = 3; JSON.stringify = null; report = null;",
    );
    expect(await run("console.log(typeof left, [].left, ({}).left, JSON.stringify({}))")).toMatchObject({
      output: "undefined undefined undefined {}\n",
    });
  });

  test("an aborted run rejects with the reason, and the next one works", async () => {
    const controller = new AbortController();
    const endless = sandbox.run({ code: "for (;;);" }, controller.signal);
    setTimeout(() => controller.abort(new Error("enough")), 50);
    await expect(endless).rejects.toThrow("enough");
    expect(await run("console.log(2)")).toMatchObject({ output: "2\n" });
  });
});
