import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeTokenizerFiles } from "../../../fixtures/tokenizer/make-tokenizer.ts";
import { loadTokenizer } from "./load-tokenizer.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "reroll-tokenizer-"));
});
afterEach(() => rm(folder, { recursive: true }));

async function writeFixture(changes: Readonly<Record<string, string | null>> = {}): Promise<void> {
  for (const [name, text] of Object.entries({ ...Object.fromEntries(makeTokenizerFiles()), ...changes })) {
    if (text === null) continue;
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
    await writeFile(path.join(folder, name), text);
  }
}

test("a folder that does not exist is named", async () => {
  await expect(loadTokenizer(path.join(folder, "nowhere"))).rejects.toThrow(/folder .*nowhere cannot be read/);
});

test("a folder without tokenizer.json says what it has instead", async () => {
  await writeFixture({ "tokenizer.json": null });
  await expect(loadTokenizer(folder)).rejects.toThrow(
    /has no tokenizer\.json: found chat_template\.jinja, generation_config\.json, tokenizer_config\.json\./,
  );
});

test("a folder without tokenizer_config.json is refused", async () => {
  await writeFixture({ "tokenizer_config.json": null });
  await expect(loadTokenizer(folder)).rejects.toThrow(/has no tokenizer_config\.json/);
});

test("a file that is not JSON is named", async () => {
  await writeFixture({ "tokenizer_config.json": "{" });
  await expect(loadTokenizer(folder)).rejects.toThrow(/tokenizer_config\.json is not JSON/);
});

test("a Git LFS pointer is recognized", async () => {
  await writeFixture({ "tokenizer.json": "version https://git-lfs.github.com/spec/v1\noid sha256:0" });
  await expect(loadTokenizer(folder)).rejects.toThrow(/tokenizer\.json is a Git LFS pointer.*git lfs pull/);
});

test("a key of the wrong type is named", async () => {
  await writeFixture({ "generation_config.json": '{"eos_token_id": "x"}' });
  await expect(loadTokenizer(folder)).rejects.toThrow(/generation_config\.json is not as expected[\s\S]*eos_token_id/);
});

test("chat templates come from the config and from files, and files win", async () => {
  const chat_template = [
    { name: "default", template: "config" },
    { name: "rag", template: "rag" },
  ];
  await writeFixture({
    "tokenizer_config.json": JSON.stringify({ chat_template }),
    "chat_template.jinja": "file",
    "additional_chat_templates/tool_use.jinja": "tools",
  });
  const { chatTemplates, files } = await loadTokenizer(folder);
  expect(Object.fromEntries(chatTemplates)).toEqual({ default: "file", rag: "rag", tool_use: "tools" });
  expect(files.has("additional_chat_templates/tool_use.jinja")).toBe(true);
});
