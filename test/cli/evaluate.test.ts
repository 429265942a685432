/** `reroll eval` as a person calls it: samples per prompt, benchmarks on local data, agents, reports. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { prepareModel } from "../../src/run/prepare-model.ts";
import { callReroll } from "./call-reroll.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-eval-"));
const here = (name: string) => join(folder, name);
const shared = fileURLToPath(new URL("../../../shared/data/", import.meta.url));
const tiny = ["--set", "rollout.contextLength=1024", "--set", "rollout.sampling.maxTokens=4"];

beforeAll(async () => {
  const model = { path: null, preset: "nano", dtype: "auto", lora: null, quantization: null } as const;
  await prepareModel({ model, seed: 1 }, [], folder);
  const questions = Array.from({ length: 6 }, (_, i) => ({ question: `What is ${i} + 1?`, answer: `#### ${i + 1}` }));
  writeFileSync(here("gsm8k.jsonl"), questions.map((row) => JSON.stringify(row)).join("\n"));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe("eval", () => {
  test("samples each prompt of a benchmark and writes a report that the same seed repeats", async () => {
    const words = ["eval", here("model"), "--benchmark", "gsm8k", "--data", here("gsm8k.jsonl"), "--samples", "3"];
    const ended = await callReroll(...words, ...tiny, "--out", here("report.json"));
    expect(ended).toMatchObject({ code: 0, stderr: "" });
    expect(ended.stdout).toMatch(/^6 prompts, 3 samples each at temperature 1; intervals of 95 %$/m);
    expect(ended.stdout).toMatch(/^pass@2 +0 +0 to 0\.39/m);
    const report = JSON.parse(readFileSync(here("report.json"), "utf8"));
    expect(Object.keys(report.scores)).toEqual(["mean@3", "pass@1", "pass@2", "pass@3", "majority@3"]);
    expect(report).toMatchObject({ benchmark: "gsm8k", samples: 3, temperature: 1, success: 1 });
    expect(report.prompts.map(({ id }: { id: string }) => id)).toEqual([
      "gsm8k:0",
      "gsm8k:1",
      "gsm8k:2",
      "gsm8k:3",
      "gsm8k:4",
      "gsm8k:5",
    ]);
    await callReroll(...words, ...tiny, "--out", here("again.json"));
    expect(JSON.parse(readFileSync(here("again.json"), "utf8")).prompts).toEqual(report.prompts);
  });

  test("plays with the agent of the run file, whose rewards it counts", async () => {
    writeFileSync(
      here("agent.ts"),
      `export default {
        model: { path: "moved/away" }, // what only training reads need not be there
        data: { type: "rows", rows: [{ prompt: "a" }, { prompt: "b" }, { prompt: "c" }, { prompt: "d" }] },
        validation: { prompts: 4, data: { type: "rows", rows: [{ prompt: "a" }, { prompt: "b" }, { prompt: "c" }, { prompt: "d" }] } },
        training: { optimizer: { lr: 0.001 } },
        rollout: { contextLength: 256, sampling: { maxTokens: 4 } },
        agent: async (prompt, { baseURL, seed, signal }) => {
          const body = JSON.stringify({ messages: prompt.messages, seed });
          const headers = { "content-type": "application/json" };
          const reply = await fetch(baseURL + "/chat/completions", { method: "POST", headers, body, signal });
          if (!reply.ok) throw new Error(await reply.text());
          return { reward: prompt.messages[0].content === "a" ? 1 : 0, metrics: { asked: 1 } };
        },
      };`,
    );
    const ended = await callReroll("eval", here("model"), "--run-file", here("agent.ts"), "--samples", "2", "--json");
    expect(ended).toMatchObject({ code: 0, stderr: "" });
    const printed = JSON.parse(ended.stdout);
    expect(printed).toMatchObject({ "eval/mean@2": 0.25, "eval/pass@2": 0.25, "validation/env/asked": 1 });
    expect(printed["eval/pass@2/low"]).toBeCloseTo(0.0456, 3);
    expect(printed["validation/rollout/trajectories"]).toBe(8);
  });

  test("a run file that says nothing about validation is measured on its rows, each once, and that is said", async () => {
    const words = ["eval", here("model"), "--run-file", here("agent.ts"), "--set", "validation=null", "--json"];
    const ended = await callReroll(...words);
    expect(ended).toMatchObject({ code: 0, stderr: expect.stringContaining("these are prompts that it trains on") });
    expect(JSON.parse(ended.stdout)).toMatchObject({ "eval/mean@1": 0.25, "validation/rollout/trajectories": 4 });
  });

  test.each([
    [["eval", "nowhere", "--run-file", "run.ts"], "nowhere does not exist"],
    [["eval", "."], "Give either --run-file or --benchmark: got neither"],
    [["eval", ".", "--benchmark", "gsm8k"], "needs its rows"],
    [["eval", ".", "--benchmark", "gsm9k", "--data", "x"], "Allowed choices are gsm8k"],
    [["eval", "MODEL", "--benchmark", "gsm8k", "--data", "nothing.jsonl"], "--data nothing.jsonl does not exist"],
    [["eval", "MODEL", "--benchmark", "gsm8k", "--data", "DATA", "--samples", "2", "--temperature", "0"], "the same"],
    [["eval", "MODEL", "--benchmark", "humaneval", "--data", "DATA"], "task_id, prompt, test, entry_point"],
    [["eval", "MODEL", "--benchmark", "gsm8k", "--data", "DATA", "--base", "x"], "--base is for adapters"],
  ])("refuses %j as misuse", async (words, reason) => {
    const named = words.map((word) => word.replace("MODEL", here("model")).replace("DATA", here("gsm8k.jsonl")));
    const { code, stderr } = await callReroll(...named);
    expect(stderr).toContain(reason);
    expect(code).toBe(2);
  });

  const files = {
    "math-500": "math/math500.jsonl",
    humaneval: "code/HumanEval.jsonl",
    mbpp: "code/mbpp.jsonl",
    ifeval: "general/ifeval.jsonl",
  };
  for (const [name, file] of Object.entries(files)) {
    test.skipIf(!existsSync(join(shared, file)) && `../shared/data/${file} is not there`)(
      `scores real rows of ${name}`,
      async () => {
        const words = ["eval", here("model"), "--benchmark", name, "--data", join(shared, file), "--prompts", "2"];
        const { code, stdout, stderr } = await callReroll(...words, ...tiny, "--json");
        expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
        expect(JSON.parse(stdout)).toMatchObject({
          "eval/pass@1": expect.any(Number),
          "validation/rollout/trajectories": 2,
          "validation/rollout/failed_share": 0,
        });
      },
    );
  }
});
