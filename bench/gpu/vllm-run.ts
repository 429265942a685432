/**
 * A run whose replies come from a vLLM server on the trainer's GPU, with new weights every step: reward, gap of log-probabilities, seconds of each publication.
 *
 * Usage: sh run.sh vllm-run --model <folder> --url http://127.0.0.1:8000 --weights broadcast|same-gpu|files [--steps 6] [--out file].
 * For `broadcast` on one GPU both sides need a NCCL_HOSTID of their own: NCCL takes them for two machines then, which it otherwise refuses.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { resolveRun } from "../../src/run/resolve-run.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";
import { rowReport } from "./row-report.ts";
import { wordRows } from "./word-task.ts";

const { values } = parseArgs({
  options: {
    model: { type: "string" },
    url: { type: "string", default: "http://127.0.0.1:8000" },
    weights: { type: "string", default: "broadcast" },
    steps: { type: "string", default: "6" },
    out: { type: "string" },
  },
});
if (values.model === undefined) throw new Error("--model is missing: the folder that the server was started with.");
const steps = Number(values.steps);
const clock = () => performance.now();
const { config } = resolveRun({
  seed: 1,
  model: { path: values.model },
  data: { type: "rows", rows: wordRows("training", 32 * steps, 1), shuffle: false, name: "words" },
  rewards: {
    default: {
      type: "custom",
      name: "words",
      score: ({ reply, truth }: { readonly reply: string; readonly truth: unknown }) => {
        const words = Array.isArray(truth) ? truth : [];
        return { value: words.filter((word) => reply.includes(String(word))).length / Math.max(1, words.length) };
      },
    },
  },
  rollout: { groupsPerStep: 32, groupSize: 8, contextLength: 256, sampling: { maxTokens: 128 } },
  engine: { remote: { kind: "vllm", url: values.url, weights: { type: values.weights } } },
  algorithm: { type: "grpo" },
  training: { optimizer: { lr: 5e-5 } },
  loop: { steps },
  checkpoint: { every: 0, minutes: null },
});
const report = rowReport("gpu-vllm-run", values.out, {
  weights: values.weights,
  model: values.model.split("/").at(-1),
});
const folder = mkdtempSync(join(tmpdir(), "vllm-run-"));
let spent: Record<string, number> = {};
await trainRun(config, {
  ...{ folder, clock, signal: new AbortController().signal, isResumed: false },
  tracker: {
    ...silentTracker,
    note: (text) => console.error(text),
    span: async (stage, work) => {
      const fromMs = clock();
      const result = await work();
      spent[stage] = +((spent[stage] ?? 0) + (clock() - fromMs) / 1000).toFixed(2);
      return result;
    },
    log: (step, kind, metrics) => {
      if (kind !== "train") return;
      const { "reward/mean": reward, "train/sampler_gap": gap } = metrics;
      report({ step, reward, gap, seconds: spent });
      spent = {};
    },
  },
});
rmSync(folder, { recursive: true, force: true });
process.exit(0);
