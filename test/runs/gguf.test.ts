/** A GGUF file is all that a run needs: weights, tokenizer and template. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import { callReroll } from "../cli/call-reroll.ts";
import { tuningFile } from "./tuning-run.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-gguf-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = new URL("../../fixtures/gguf/chat.gguf", import.meta.url).pathname;
const ask = ["--prompt", "hello", "--max-tokens", "6", "--temperature", "0"];

test("a GGUF file is asked, exported and asked again with the same answer", async () => {
  const asked = await callReroll("generate", file, ...ask);
  expect(asked).toMatchObject({ code: 0, stderr: "" });
  const out = join(folder, "out");
  expect(await callReroll("export", file, "--out", out)).toMatchObject({ code: 0 });
  expect(readdirSync(out).sort()).toEqual([
    ...["chat_template.jinja", "config.json", "generation_config.json"],
    ...["model.safetensors", "tokenizer.json", "tokenizer_config.json"],
  ]);
  const [one, two] = await Promise.all([loadTokenizer(file), loadTokenizer(out)]);
  expect([...two.encode("hello 12")]).toEqual([...one.encode("hello 12")]);
  expect((await callReroll("generate", out, ...ask)).stdout).toBe(asked.stdout);
});

test("a run trains from a GGUF file, and its weights are a folder with the tokenizer", async () => {
  const tracking = { folder: join(folder, "runs"), tensorboard: false };
  const run = { ...tuningFile({ model: { path: file }, loop: { steps: 1, rowsPerStep: 2 } }), tracking };
  writeFileSync(join(folder, "run.json"), JSON.stringify(run));
  expect(await callReroll("train", join(folder, "run.json"))).toMatchObject({ code: 0, stderr: "" });
  const saved = readdirSync(join(folder, "runs/tuned/checkpoints/step-000001/model"));
  expect(saved).toEqual(expect.arrayContaining(["chat_template.jinja", "model.safetensors", "tokenizer.json"]));
});
