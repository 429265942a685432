/** Benchmarks that are known by name: how their rows are read and asked, and how replies are scored. Their data is the user's. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { extname, join } from "node:path";
import type { DataChoice } from "../../data/data-options.ts";
import type { RowSchemaName } from "../../data/row-schemas.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { RewardChoice } from "../../rewards/catalog.ts";
import { readShape } from "../check-files.ts";
import type { RawRun } from "../load-run-file.ts";
import type { BenchmarkName } from "./benchmark-names.ts";

interface Benchmark {
  /** Reads the rows, and says how they are asked. */
  readonly schema: RowSchemaName;
  /** 1 for a reply that solves its task, else 0. */
  readonly reward: RewardChoice;
}

const benchmarks = {
  gsm8k: { schema: "gsm8k", reward: { type: "math" } },
  "math-500": { schema: "math", reward: { type: "math" } },
  humaneval: { schema: "humaneval", reward: { type: "code" } },
  mbpp: { schema: "mbpp", reward: { type: "code" } },
  ifeval: { schema: "ifeval", reward: { type: "ifeval" } },
} as const satisfies Record<BenchmarkName, Benchmark>;

/** The run whose validation is the benchmark: every row of the data once, in its order. */
export function benchmarkRun(name: BenchmarkName, data: string, modelFolder: string): RawRun {
  const { schema, reward } = benchmarks[name];
  const contextLength = Math.min(4096, readShape(modelFolder, "<model>").maxPositions);
  return {
    name: `eval-${name}`,
    model: { path: modelFolder },
    data: { type: typeOf(data), path: data, name, schema },
    rewards: { default: reward },
    rollout: { contextLength, sampling: { maxTokens: Math.floor(contextLength / 2) } },
    // Every run file has one; nothing here is trained.
    training: { optimizer: { lr: 1e-6 } },
    validation: { prompts: MAX_ROWS, data: { type: typeOf(data), path: data, name, schema, epochs: 1 } },
  };
}

/** More than any benchmark has: the data ends first. */
const MAX_ROWS = 1_000_000;

type FileType = Extract<DataChoice["type"], "jsonl" | "json" | "parquet">;

const TYPES: Readonly<Record<string, FileType>> = { ".jsonl": "jsonl", ".json": "json", ".parquet": "parquet" };

/** By the ending of the file, or of the first file of a folder that has a known one. */
function typeOf(path: string): FileType {
  if (!existsSync(path)) throw new RerollError("FILE_NOT_FOUND", `--data ${path} does not exist. Check the path.`);
  const names = statSync(path).isDirectory() ? readdirSync(path).map((name) => join(path, name)) : [path];
  const type = names.map((name) => TYPES[extname(name)]).find((each) => each !== undefined);
  if (type !== undefined) return type;
  throw new RerollError(
    "FILE_INVALID",
    `--data ${path} holds no rows: give a .jsonl, .json or .parquet file, or a folder of them.`,
    { path },
  );
}
