import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { isReachable, makeReachable } from "./reachable-folders.ts";

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "reachable-"));
  mkdirSync(join(root, "closed/packages/inner"), { recursive: true });
  mkdirSync(join(root, "open"));
  writeFileSync(join(root, "closed/packages/inner/module.py"), "x = 1\n", { mode: 0o600 });
  for (const folder of ["", "open", "closed/packages"]) chmodSync(join(root, folder), 0o755);
  chmodSync(join(root, "closed"), 0o700);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(root, { recursive: true });
});

test("a folder is reachable when all above it can be entered and it can be listed", () => {
  expect(isReachable(join(root, "open"))).toBe(true);
  expect(isReachable(join(root, "closed"))).toBe(false);
  expect(isReachable(join(root, "closed/packages"))).toBe(false);
});

test("folders that all can reach are shown where they are", async () => {
  const { paths, remove } = await makeReachable([join(root, "open")]);
  expect(paths).toEqual([join(root, "open")]);
  await remove();
  expect(existsSync(join(root, "open"))).toBe(true);
});

test("a folder below a closed one is copied for all to read, and the copy is removed", async () => {
  const { paths, remove } = await makeReachable([join(root, "open"), join(root, "closed/packages")]);
  const copy = paths[1] ?? "";
  expect([paths[0], isReachable(copy), readdirSync(join(copy, "inner"))]).toEqual([
    join(root, "open"),
    true,
    ["module.py"],
  ]);
  expect(statSync(join(copy, "inner/module.py")).mode & 0o777).toBe(0o644);
  await remove();
  expect(existsSync(copy)).toBe(false);
});

test("links that lead nowhere or back up are left out of a copy, others are followed", async () => {
  const packages = join(root, "closed/packages");
  symlinkSync("/no/such/place", join(packages, "dangling"));
  symlinkSync(".", join(packages, "itself"));
  symlinkSync(packages, join(packages, "inner/above"));
  symlinkSync(join(packages, "inner"), join(packages, "beside"));
  const { paths, remove } = await makeReachable([packages]);
  expect(readdirSync(paths[0] ?? "", { recursive: true }).sort()).toEqual([
    ...["beside", "beside/module.py", "inner", "inner/module.py"],
  ]);
  await remove();
});

test("where no copy can be reached either, the error says what to do, and leaves nothing", async () => {
  vi.stubEnv("TMPDIR", join(root, "closed"));
  await expect(makeReachable([join(root, "closed/packages")])).rejects.toThrow(/Set TMPDIR to a folder that everybody/);
  expect(readdirSync(join(root, "closed"))).toEqual(["packages"]);
});
