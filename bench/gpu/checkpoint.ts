/**
 * What a checkpoint costs training: how long training waits for one that is written at once, and for one that is held in memory and written
 * by a thread beside; how long that thread takes; and how much longer steps take meanwhile.
 *
 * Usage: sh run.sh checkpoint [--device cuda] [--preset small] [--saves 4] [--out file.json]. Without a preset the shape of Qwen2.5-0.5B, in
 * bfloat16 on a GPU and float32 elsewhere, with AdamW and its float32 copy of the weights.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import type { TuningExample } from "../../src/flow/tuning-example.ts";
import { createPreset, type PresetName } from "../../src/models/causal-lm/presets.ts";
import { saveCausalLm } from "../../src/models/causal-lm/save-causal-lm.ts";
import { Checkpoints, type LoopState } from "../../src/run/checkpoint.ts";
import { writeManifest } from "../../src/run/manifest.ts";
import { startTuning } from "../../src/training/start-trainer.ts";
import type { TuningTrainer } from "../../src/training/trainer.ts";
import { trainingOptions } from "../../src/training/trainer-options.ts";
import { createQwenShape } from "./qwen-shape.ts";
import { rowReport } from "./row-report.ts";

const { values } = parseArgs({
  options: {
    device: { type: "string", default: "cpu" },
    preset: { type: "string" },
    saves: { type: "string", default: "4" },
    tokens: { type: "string", default: "1024" },
    out: { type: "string" },
  },
});
const { device } = values;
const dtype = device.startsWith("cuda") ? "bfloat16" : "float32";
const folder = mkdtempSync(join(tmpdir(), "reroll-checkpoint-"));
const report = rowReport("checkpoint", values.out, { on: device, shape: values.preset ?? "qwen2.5-0.5b" });
try {
  await measure();
} finally {
  rmSync(folder, { recursive: true });
}

async function measure(): Promise<void> {
  const trainer = await openTrainer();
  // The optimizer has its state from the first step on.
  for (let i = 0; i < 3; i++) await trainer.step(examples());
  const stepMs = await median(5, () => trainer.step(examples()));
  const checkpoints = new Checkpoints(join(folder, "run"), 2);
  for (let number = 1; number <= Number(values.saves); number++) {
    const [atOnceMs, bytes] = await saveAtOnce(trainer, number);
    report({ what: "written at once", number, pauseMs: atOnceMs, bytes });
    report({ what: "written beside", number, stepMs, ...(await saveBeside(trainer, checkpoints, number)) });
  }
  await checkpoints.close();
  await trainer.close();
}

/** As it was before checkpoints were held: everything on disk, and read again for its hashes, before training goes on. */
async function saveAtOnce(trainer: TuningTrainer, number: number): Promise<readonly [number, number]> {
  const place = join(folder, `at-once-${number}`);
  mkdirSync(place, { recursive: true });
  const ms = await timed(async () => {
    await trainer.saveModel(join(place, "model"));
    await trainer.saveState(join(place, "state"));
    await writeManifest(place);
  });
  const bytes = bytesIn(place);
  rmSync(place, { recursive: true });
  return [ms, bytes];
}

async function saveBeside(trainer: TuningTrainer, checkpoints: Checkpoints, step: number) {
  const state: LoopState = {
    ...{ step, version: step, rollout: null, replay: null, best: null, numWithoutBetter: 0, validatedStep: -1 },
  };
  const start = performance.now();
  const pauseMs = await timed(() => checkpoints.save(trainer, state));
  let isWritten = false;
  const written = checkpoints.settled().then(() => {
    isWritten = true;
    return performance.now() - start;
  });
  const during: number[] = [];
  while (!isWritten) during.push(await timed(() => trainer.step(examples())));
  during.sort((a, b) => a - b);
  return {
    pauseMs,
    writtenMs: await written,
    numStepsMeanwhile: during.length,
    stepMsMeanwhile: during[during.length >> 1],
  };
}

async function openTrainer(): Promise<TuningTrainer> {
  const modelFolder = join(folder, "model");
  const files = byteTokenizerFiles();
  const model =
    values.preset === undefined
      ? createQwenShape({ device, dtype })
      : createPreset(values.preset as PresetName, 2048, 1);
  saveCausalLm(model, modelFolder, { files });
  model.dispose();
  const options = trainingOptions.parse({ optimizer: { lr: 1e-5 } });
  return startTuning({
    ...{ modelFolder, tokenizerFolder: modelFolder, device, dtype, quantization: undefined, lora: null },
    ...{
      objective: { type: "supervised" as const, train: "all" as const, chat: false },
      reference: null,
      training: options,
    },
    ...{ optimizer: options.optimizer, schedule: options.schedule, numUpdates: 1000, seed: 1 },
  });
}

function examples(): TuningExample[] {
  const length = Number(values.tokens);
  const tokenIds = Int32Array.from({ length }, (_, i) => (i * 7919) % 250);
  return [{ sequences: [{ tokenIds, lossMask: Uint8Array.from({ length }, (_, i) => Number(i > 0)) }] }];
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

async function median(count: number, work: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < count; i++) times.push(await timed(work));
  return times.sort((a, b) => a - b)[count >> 1]!;
}

function bytesIn(place: string): number {
  const entries = readdirSync(place, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return entries.reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
