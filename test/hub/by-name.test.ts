/** Models and data by name, as users meet them: run files and commands, against a Hub on this machine. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import { writeParquet } from "../../src/data/write-parquet.ts";
import { createPreset } from "../../src/models/causal-lm/presets.ts";
import { saveCausalLm } from "../../src/models/causal-lm/save-causal-lm.ts";
import { callReroll } from "../cli/call-reroll.ts";
import { pair, tuningFile } from "../runs/tuning-run.ts";
import { commitOf, TestHub } from "./hub-server.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-by-name-"));
const runs = join(folder, "runs");
const cache = join(folder, "cache/hub");
let hub: TestHub;

const readme = `---
configs:
- config_name: main
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: main/test-*
---
`;

beforeAll(async () => {
  hub = await TestHub.start();
  hub.tokens.add("hf_test_token");
  const made = createPreset("nano", 272, 1);
  saveCausalLm(made, join(folder, "tiny"), { files: byteTokenizerFiles() });
  made.dispose();
  const names = readdirSync(join(folder, "tiny"));
  hub.add("models/me/tiny", Object.fromEntries(names.map((name) => [name, readFileSync(join(folder, "tiny", name))])));
  const rows = Array.from({ length: 8 }, (_, i) => ({ question: `${i} + 1?`, answer: `So it is.\n#### ${i + 1}` }));
  await writeParquet(join(folder, "rows.parquet"), rows);
  const parquet = readFileSync(join(folder, "rows.parquet"));
  const files = { "README.md": readme, "main/train-0-of-1.parquet": parquet, "main/test-0-of-1.parquet": parquet };
  hub.add("datasets/me/sums", files);
  hub.add("datasets/me/chats", {
    "train.jsonl": [pair("hi", "yo"), pair("a", "b")].map((row) => JSON.stringify(row)).join("\n"),
  });
  vi.stubEnv("HF_ENDPOINT", hub.endpoint);
  vi.stubEnv("HF_HOME", join(folder, "cache"));
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await hub.close();
  rmSync(folder, { recursive: true });
});

function runFile(name: string, content: object): string {
  const path = join(folder, `${name}.json`);
  writeFileSync(path, JSON.stringify(content));
  return path;
}

const rollout = {
  name: "named",
  device: "cpu",
  model: { path: "me/tiny" },
  data: { path: "me/sums" },
  rewards: { default: { type: "contains", any: ["1"] } },
  rollout: { groupsPerStep: 2, groupSize: 2, contextLength: 192, sampling: { maxTokens: 8 } },
  training: { optimizer: { lr: 1e-4 }, threads: 1 },
  loop: { type: "sync", steps: 1 },
  tracking: { folder: runs, tensorboard: false },
};

test("--plan says what would be fetched and how much, with the memory of the model, and fetches no weights", async () => {
  const planned = await callReroll("train", runFile("plan", rollout), "--plan");
  expect(planned).toMatchObject({ code: 0 });
  const sha = commitOf(hub.repos.get("models/me/tiny")!).slice(0, 8);
  expect(planned.stdout).toMatch(
    new RegExp(`model.path: would fetch [\\d.]+ [kM]B \\(\\d files\\) of me/tiny, commit ${sha}`),
  );
  expect(planned.stdout).toMatch(/data.path: would fetch [\d.]+ kB \(1 file\) of me\/sums/);
  expect(planned.stdout).toMatch(/parameters in float32 on cpu/);
  expect(readdirSync(join(cache, "models--me--tiny/snapshots", commitOf(hub.repos.get("models/me/tiny")!)))).toEqual([
    "config.json",
  ]);
  expect(hub.requests.some(({ line }) => line.includes("/cdn/"))).toBe(false);
});

test("a run trains from a model and rows by name, is resumed with the commit it had, and is pushed with a card", async () => {
  const file = runFile("named", rollout);
  const trained = await callReroll("train", file);
  expect(trained).toMatchObject({ code: 0 });
  expect(trained.stderr).toContain("Fetching me/tiny: ");
  const folderOf = join(runs, "named");
  const recorded = JSON.parse(readFileSync(join(folderOf, "config.json"), "utf8"));
  const sha = commitOf(hub.repos.get("models/me/tiny")!);
  const { model: shown } = JSON.parse(readFileSync(join(folderOf, "run.json"), "utf8"));
  expect(shown).toBe(`me/tiny@${sha.slice(0, 8)}`);
  expect(recorded.model.path).toBe(join(cache, "models--me--tiny/snapshots", sha));

  // Somebody pushes another model: the run goes on from the one it has.
  const repo = hub.repos.get("models/me/tiny")!;
  const before = new Map(repo.files);
  repo.files.set("tokenizer_config.json", Buffer.from("broken"));
  Object.assign(repo, { isPrivate: false });
  vi.stubEnv("HF_HUB_OFFLINE", "1");
  const resumed = await callReroll("train", file, "--resume", folderOf, "--set", "loop.steps=2");
  expect(resumed).toMatchObject({ code: 0 });
  vi.stubEnv("HF_HUB_OFFLINE", "");
  for (const [path, content] of before) repo.files.set(path, content);

  expect(await callReroll("push", folderOf, "--to", "me/trained")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("Set HF_TOKEN"),
  });
  vi.stubEnv("HF_TOKEN", "hf_test_token");
  const pushed = await callReroll("push", folderOf, "--to", "me/trained", "--private");
  vi.stubEnv("HF_TOKEN", "");
  expect(pushed).toMatchObject({ code: 0, stdout: expect.stringContaining(`to ${hub.endpoint}/me/trained`) });
  const target = hub.repos.get("models/me/trained")!;
  expect(target.isPrivate).toBe(true);
  const weights = readFileSync(join(folderOf, "checkpoints/step-000002/model/model.safetensors"));
  expect(target.files.get("model.safetensors")?.equals(weights)).toBe(true);
  const card = String(target.files.get("README.md"));
  expect(card).toContain("base_model: me/tiny");
  expect(card).toContain("datasets:\n  - me/sums");
  expect(card).toMatch(/\| recipe \| grpo \|[\s\S]*\| steps \| 2 of 2 \|/);
  expect(card).toContain(`model.path = "me/tiny@${sha}"`);
  expect(card).toMatch(/## Metrics of train, step 2/);
  expect(card).not.toContain(folder);
});

test("generate, eval, export and adapters take names; the base of adapters is found by its own", async () => {
  const asked = await callReroll("generate", "me/tiny", "--prompt", "hi", "--max-tokens", "4", "--seed", "1");
  expect(asked).toMatchObject({ code: 0 });
  expect(await callReroll("export", "me/tiny", "--out", join(folder, "out"))).toMatchObject({ code: 0 });
  expect(existsSync(join(folder, "out/model.safetensors"))).toBe(true);
  const validated = { ...rollout, validation: { data: { path: "me/sums", split: "test", epochs: 1 }, prompts: 2 } };
  const scored = await callReroll("eval", "me/tiny", "--run-file", runFile("eval", validated), "--json");
  expect(scored).toMatchObject({ code: 0, stdout: expect.stringContaining("pass@1") });
});

test("a tuning run takes names, says in a plan what it would fetch, and a data set of any size by split", async () => {
  const tracking = { folder: runs, tensorboard: false };
  const file = runFile("tuned", {
    ...tuningFile({
      model: { path: "me/tiny", lora: { rank: 2 } },
      data: { path: "me/chats" },
      loop: { steps: 1, rowsPerStep: 2 },
    }),
    tracking,
  });
  rmSync(join(folder, "cache"), { recursive: true });
  const planned = await callReroll("train", file, "--plan");
  expect(planned.stdout).toMatch(
    /data.path: would fetch 1 kB \(1 file\) of me\/chats[\s\S]*Rows and memory are counted once/,
  );
  expect(await callReroll("train", file)).toMatchObject({ code: 0 });
  vi.stubEnv("HF_TOKEN", "hf_test_token");
  expect(await callReroll("push", join(runs, "tuned"), "--to", "me/adapters")).toMatchObject({ code: 0 });
  vi.stubEnv("HF_TOKEN", "");
  const adapters = hub.repos.get("models/me/adapters")!;
  expect(JSON.parse(String(adapters.files.get("adapter_config.json"))).base_model_name_or_path).toBe("me/tiny");
  expect(String(adapters.files.get("README.md"))).toContain("library_name: peft");
  const asked = await callReroll("generate", "me/adapters", "--prompt", "hi", "--max-tokens", "4", "--seed", "1");
  expect(asked).toMatchObject({ code: 0 });
});

test("names that are not on the Hub are told from paths that are not on disk", async () => {
  const missing = await callReroll("train", runFile("lost", { ...rollout, model: { path: "me/nothing" } }), "--plan");
  expect(missing).toMatchObject({ code: 2 });
  expect(missing.stderr).toContain('model.path names "me/nothing", and ');
  expect(missing.stderr).toContain("shows no model me/nothing. Check the name; if it is private, set HF_TOKEN.");
  const local = await callReroll("train", runFile("local", { ...rollout, data: { path: "src/rows.jsonl" } }), "--plan");
  expect(local.stderr).toContain("If the Hub is meant, write hf://src/rows.jsonl.");
  const split = await callReroll(
    "train",
    runFile("split", { ...rollout, data: { path: "me/sums", split: "dev" } }),
    "--plan",
  );
  expect(split.stderr).toContain('has no split "dev". It has: train, test.');
});
