/** A LoRA run from its file to a served model: adapters name their base, and every command takes them. */
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { runCli } from "../../src/cli/run-cli.ts";
import { callReroll } from "./call-reroll.ts";
import { exampleRun } from "./example-run.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-adapters-"));
const [run, adapters, base] = [join(folder, "runs/lora"), join(folder, "adapters"), join(folder, "elsewhere")];
const ask = ["--prompt", "P _ _", "--max-tokens", "6", "--seed", "3"];

beforeAll(async () => {
  const file = {
    ...exampleRun,
    ...{ name: "lora", model: { preset: "nano", lora: { rank: 2 } }, loop: { type: "sync", steps: 1 } },
    envs: { lake: { type: "frozen-lake", size: 3, prompt: "compact", maxTurns: 4 } },
    rollout: { ...exampleRun.rollout, context: "turn" },
    ...{ tracking: { folder: join(folder, "runs"), tensorboard: false } },
  };
  writeFileSync(join(folder, "run.json"), JSON.stringify(file));
  expect(await callReroll("train", join(folder, "run.json"))).toMatchObject({ code: 0, stderr: "" });
});
afterAll(() => rmSync(folder, { recursive: true }));

test("adapters name their base, and a moved base is given with --base", async () => {
  const ofRun = await callReroll("generate", run, ...ask);
  expect(ofRun).toMatchObject({ code: 0, stderr: "" });
  expect((await callReroll("export", run, "--out", adapters)).code).toBe(0);
  const config = JSON.parse(readFileSync(join(adapters, "adapter_config.json"), "utf8"));
  expect(config.base_model_name_or_path).toBe(join(run, "model"));
  expect(existsSync(join(adapters, "model.safetensors"))).toBe(false);
  expect((await callReroll("generate", adapters, ...ask)).stdout).toBe(ofRun.stdout);

  cpSync(join(run, "model"), base, { recursive: true });
  rmSync(join(run, "model"), { recursive: true });
  const lost = await callReroll("generate", adapters, ...ask);
  expect(lost).toMatchObject({ code: 2, stderr: expect.stringContaining("Give its folder with --base") });
  expect((await callReroll("generate", adapters, "--base", base, ...ask)).stdout).toBe(ofRun.stdout);
});

test("serve takes a run and the base of its adapters, and calls the model by the name of the run", async () => {
  const said: string[] = [];
  const spies = [
    vi.spyOn(console, "log").mockImplementation((line) => void said.push(String(line))),
    vi.spyOn(process.stdout, "write").mockImplementation((text) => said.push(String(text)) > 0),
  ];
  const ended = runCli(["serve", run, "--base", base, "--port", "0"]);
  const address = () => /http:\/\/[\d.:]+/.exec(said.join("\n"))?.[0];
  try {
    await expect.poll(address, { timeout: 120_000 }).toBeDefined();
    const { data } = (await (await fetch(`${address()}/v1/models`)).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toEqual(["lora"]);
  } finally {
    process.emit("SIGTERM", "SIGTERM");
    expect(await ended).toBe(0);
    for (const spy of spies) spy.mockRestore();
  }
});
