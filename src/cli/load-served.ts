/** Loads what a server needs from the path of a model or a run: an engine in its own thread, and a tokenizer. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import type { Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { startThreadedEngine, type ThreadedEngine } from "../generation/local/threaded-engine.ts";
import { splitProblem } from "../models/causal-lm/model-spread.ts";
import { readShape } from "../run/check-files.ts";
import { wholeModel } from "../run/export-model.ts";
import { openModel } from "../run/find-model.ts";
import { cudaDeviceCount, isCudaAvailable } from "../torch/cuda.ts";
import { openHub } from "./open-hub.ts";

/** Choices of the command line. */
export interface LoadServedOptions {
  /** A checkpoint of a run. Default: the best, else the latest. */
  readonly step?: number;
  /** The folder of the model that LoRA adapters belong to. Default: the one recorded with them. */
  readonly base?: string;
  /** The folder of the tokenizer. Default: the model's. */
  readonly tokenizer?: string;
  /** The device to run on. Default: cuda if there is one. */
  readonly device?: string;
  /** Devices that split the model, or that have some of its experts each, from `device` on. Default 1. */
  readonly tensor?: number;
  readonly expert?: number;
  /** The number format of the weights. Default: as in the files. */
  readonly dtype?: "float32" | "bfloat16" | "float16";
  /** Maximum number of tokens in a prompt and its reply. */
  readonly context?: number;
  readonly maxRunning?: number;
  readonly maxQueued?: number;
}

/** A model that is ready to be served. */
export interface Served {
  readonly engine: ThreadedEngine;
  readonly tokenizer: Tokenizer;
  /** The name of the model: the last part of its path, without .gguf. */
  readonly name: string;
}

/** Loads the weights of a run, a checkpoint, a Hugging Face folder or a .gguf file. Adapters are merged into their base. */
export async function loadServed(path: string, options: LoadServedOptions): Promise<Served> {
  const scratch = await mkdtemp(join(tmpdir(), "reroll-merged-"));
  try {
    const paths = openHub();
    const folder = await wholeModel(await openModel(path, paths, options.step), scratch, paths, options.base);
    const tokenizer = options.tokenizer && (await paths.tokenizer(options.tokenizer, "--tokenizer"));
    for (const line of paths.lines) console.error(line);
    const loaded = await loadWhole(folder, { ...options, ...(tokenizer && { tokenizer }) });
    return { ...loaded, name: basename(resolve(path), ".gguf") };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function loadWhole(folder: string, options: LoadServedOptions): Promise<Omit<Served, "name">> {
  const tokenizerFolder = options.tokenizer === undefined ? folder : resolve(options.tokenizer);
  const tokenizer = await loadTokenizer(tokenizerFolder);
  const { dtype, context: contextLength, maxRunning, maxQueued } = options;
  if (contextLength !== undefined) expectContext(contextLength, readShape(folder, "model").maxPositions);
  const device = options.device ?? (isCudaAvailable() ? "cuda" : "cpu");
  const split = splitOver(device, folder, options);
  const engine = await startThreadedEngine({
    ...{ folder, tokenizerFolder, split },
    device: split?.devices[0] ?? device,
    ...(dtype === undefined ? {} : { dtype }),
    options: {
      ...(contextLength === undefined ? {} : { contextLength }),
      ...(maxRunning === undefined ? {} : { maxRunning }),
      ...(maxQueued === undefined ? {} : { maxQueued }),
    },
  });
  return { engine, tokenizer };
}

function expectContext(contextLength: number, maxPositions: number): void {
  if (contextLength <= maxPositions) return;
  throw new RerollError(
    "INVALID_OPTION",
    `--context is more than the model was made for: got ${contextLength}, and its config says ${maxPositions} positions. Give ${maxPositions} or less.`,
  );
}

/** How the model is split over devices from this one on; undefined where it is not. */
function splitOver(device: string, folder: string, { tensor = 1, expert = 1 }: LoadServedOptions) {
  const numRanks = Math.max(tensor, expert);
  if (numRanks === 1) return undefined;
  if (tensor > 1 && expert > 1 && tensor !== expert)
    throw new RerollError(
      "INVALID_OPTION",
      `--tensor is ${tensor} and --expert ${expert}: both are over the same devices. Give both ${numRanks}, or leave one of them out.`,
    );
  const counts = { tensor, expert, context: 1, pipeline: 1 };
  const problem = splitProblem(readShape(folder, "model"), counts, "--");
  if (problem !== null) throw new RerollError("INVALID_OPTION", problem);
  const first = Number(device.split(":")[1] ?? 0);
  if (device !== "cpu" && first + numRanks > cudaDeviceCount())
    throw new RerollError(
      "NO_DEVICE",
      `${numRanks} devices from ${device} on are more than this machine has: it has ${cudaDeviceCount()} CUDA devices.`,
    );
  const devices = Array.from({ length: numRanks }, (_, rank) => (device === "cpu" ? device : `cuda:${first + rank}`));
  return { tensor, expert, devices };
}
