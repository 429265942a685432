import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { replaceFileSync, replacePath, replaceText } from "./replace-file.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "reroll-files-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const bytes = (text: string) => new TextEncoder().encode(text);

test("a file holds the pieces in order, and nothing lies beside it", () => {
  const path = join(folder, "a");
  replaceFileSync(path, (append) => {
    append(bytes("one "));
    append(bytes("two"));
  });
  expect(readFileSync(path, "utf8")).toBe("one two");
  expect(readdirSync(folder)).toEqual(["a"]);
});

test("a writer that fails leaves the file as it was, and no draft", async () => {
  const path = join(folder, "a");
  await replaceText(path, "before");
  expect(() =>
    replaceFileSync(path, (append) => {
      append(bytes("half"));
      throw new Error("disk full");
    }),
  ).toThrow("disk full");
  await expect(
    replacePath(path, (draft) => {
      writeFileSync(draft, "half");
      throw new Error("disk full");
    }),
  ).rejects.toThrow("disk full");
  expect(readFileSync(path, "utf8")).toBe("before");
  expect(readdirSync(folder)).toEqual(["a"]);
});

test("while a file is written, readers see the old one", async () => {
  const path = join(folder, "a");
  await replaceText(path, "before");
  await replacePath(path, (draft) => {
    writeFileSync(draft, "after");
    expect(readFileSync(path, "utf8")).toBe("before");
  });
  expect(readFileSync(path, "utf8")).toBe("after");
});

test("a folder takes the place of another, and a draft from a crash is not mixed in", async () => {
  const path = join(folder, "step-1");
  const fill = (name: string) => (draft: string) => {
    mkdirSync(draft);
    writeFileSync(join(draft, name), "");
  };
  await replacePath(path, fill("old"));
  mkdirSync(`${path}.writing`);
  writeFileSync(join(`${path}.writing`, "left over"), "");
  await replacePath(path, fill("new"));
  expect(readdirSync(path)).toEqual(["new"]);
  expect(readdirSync(folder)).toEqual(["step-1"]);
});
