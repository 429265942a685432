import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkGpu, checkMemory, checkNode, checkRunFolder, checkThreads, renderChecks } from "./doctor.ts";

test("Node 20 is the floor", () => {
  expect(checkNode("20.1.0").status).toBe("ok");
  expect(checkNode("18.19.0")).toMatchObject({ status: "fail", advice: "Install Node 20 or newer." });
});

test("a machine without a GPU is told what it means, by how libtorch was built", () => {
  expect(checkGpu([{ name: "H200", totalBytes: 150e9 }], true)).toMatchObject({
    status: "ok",
    found: "H200, 150.0 GB",
  });
  expect(checkGpu([], true).advice).toContain("nvidia-smi");
  expect(checkGpu([], false).advice).toContain("REROLL_LIBTORCH");
});

test("more threads than cores are a warning", () => {
  expect(checkThreads(4, 4)).toMatchObject({ status: "ok", found: "4 cores, 4 threads per operator" });
  expect(checkThreads(1, 2)).toMatchObject({ status: "warn", found: "1 core, 2 threads per operator" });
});

test("little memory is a warning", () => {
  expect(checkMemory(8e9, 16e9).status).toBe("ok");
  expect(checkMemory(1e9, 16e9)).toMatchObject({ status: "warn", found: "1.0 GB free of 16.0 GB" });
});

test("a run folder that does not exist yet is judged by the folder above", () => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-doctor-"));
  expect(checkRunFolder(join(folder, "a", "b")).status).not.toBe("fail");
  rmSync(folder, { recursive: true });
});

test("the table has a line per check, and one more where there is something to do", () => {
  const text = renderChecks([
    { name: "Node", status: "ok", found: "20.1.0", advice: "" },
    { name: "memory", status: "warn", found: "1.0 GB", advice: "Close something." },
  ]);
  expect(text.split("\n")).toEqual([
    "ok    Node    20.1.0",
    "warn  memory  1.0 GB",
    "              -> Close something.",
  ]);
});
