import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { native } from "./binding.ts";
import { findLoadedLibtorch, libtorchMismatch } from "./loaded-libtorch.ts";

let root: string;
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "reroll-libtorch-")));
  for (const folder of ["here", "there"]) {
    mkdirSync(join(root, folder));
    writeFileSync(join(root, folder, "libtorch_cpu.so.2.11"), "12345");
    symlinkSync("libtorch_cpu.so.2.11", join(root, folder, "libtorch_cpu.so"));
  }
});
afterEach(() => rmSync(root, { recursive: true }));

const loadedFrom = (folder: string) => ({ path: join(root, folder, "libtorch_cpu.so"), size: 5 });

test("the libtorch of the record fits, also through links", () => {
  symlinkSync("here", join(root, "link"));
  const libDir = join(root, "link");
  expect(libtorchMismatch({ version: "2.11.0", libDir, librarySize: 5 }, loadedFrom("here"))).toBe(null);
  expect(libtorchMismatch({ version: "2.11.0", libDir }, loadedFrom("here"))).toBe(null);
});

test("a folder of links to the library fits, as Debian's python3-torch has one", () => {
  const libDir = join(root, "links");
  mkdirSync(libDir);
  symlinkSync("../here/libtorch_cpu.so.2.11", join(libDir, "libtorch_cpu.so"));
  expect(libtorchMismatch({ version: "2.11.0", libDir, librarySize: 5 }, loadedFrom("here"))).toBe(null);
  expect(libtorchMismatch({ version: "2.11.0", libDir }, loadedFrom("there"))).toContain("was loaded");
});

test("a libtorch in another folder does not fit, and both are named", () => {
  const built = { version: "2.11.0", libDir: join(root, "here") };
  expect(libtorchMismatch(built, loadedFrom("there"))).toBe(
    `the addon was built against libtorch 2.11.0 in ${root}/here, but ${root}/there/libtorch_cpu.so was loaded`,
  );
  expect(libtorchMismatch({ ...built, libDir: join(root, "gone") }, loadedFrom("here"))).toContain("was loaded");
});

test("a libtorch that was upgraded in place does not fit", () => {
  const built = { version: "2.11.0", libDir: join(root, "here"), librarySize: 6 };
  expect(libtorchMismatch(built, loadedFrom("here"))).toContain("has changed since the addon was built");
});

test("the library is found among the files of a process, with spaces in its path", () => {
  const path = join(root, "a b/libtorch_cpu.so.2");
  mkdirSync(join(root, "a b"));
  writeFileSync(path, "123");
  const maps = join(root, "maps");
  writeFileSync(maps, `7f0-7f1 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n7f2-7f3 r-xp 00000000 08:01 13   ${path}\n`);
  expect(findLoadedLibtorch(maps)).toEqual({ path, size: 3 });
  expect(findLoadedLibtorch(join(root, "none"))).toBe(null);
});

test.runIf(process.platform === "linux")("this process has one libtorch, and loading the addon accepted it", () => {
  expect(native.torchVersion).toMatch(/^\d/);
  expect(findLoadedLibtorch()?.path).toMatch(/libtorch_cpu\.so/);
});
