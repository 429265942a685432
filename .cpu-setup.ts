import { readFileSync, appendFileSync } from "node:fs";
import { afterAll, expect } from "vitest";
afterAll(() => {
  const s = readFileSync("/proc/self/stat", "utf8"); const f = s.slice(s.lastIndexOf(")") + 2).split(" ").map(Number);
  appendFileSync(process.env.CPULOG!, JSON.stringify({ pid: process.pid, file: expect.getState().testPath, own: (f[11]! + f[12]!) / 100, kids: (f[13]! + f[14]!) / 100, up: process.uptime() }) + "\n");
});
