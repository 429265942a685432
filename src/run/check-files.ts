/** Whether the files that a run names are there, and what shape its model has. Reads names and config.json, nothing large. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { DataOptions } from "../data/data-options.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { parseHubName } from "../hub/hub-name.ts";
import { type CausalLmConfig, parseConfig } from "../models/causal-lm/config.ts";
import { openGgufModel } from "../models/causal-lm/gguf/gguf-model.ts";
import { presetConfig } from "../models/causal-lm/presets.ts";
import type { RoleShapes } from "./estimate-memory.ts";
import type { RunConfig } from "./run-config.ts";

/** Bytes and a few special tokens: what a preset speaks where no environment names its words. */
const PRESET_VOCABULARY = 272;

/** Throws for the first file that is missing; files under `pending` keys are still on the Hub. Out: the shapes of the models. */
export function checkFiles(config: RunConfig, pending: ReadonlySet<string> = new Set()): RunShapes {
  const { model, data, validation, warmStart } = config;
  const shape = modelShape(model);
  const roles = roleShapes(config);
  if (data !== null) checkData(data, "data", pending);
  if (validation?.data) checkData(validation.data, "validation.data", pending);
  if (warmStart?.type === "data") checkData(warmStart.data, "warmStart.data", pending);
  return { shape, roles };
}

/** The shape of the model that is trained, and those of the others. */
interface RunShapes {
  readonly shape: CausalLmConfig;
  readonly roles: RoleShapes;
}

/** The models that a run loads from folders of their own. */
export function roleShapes({ rewards, reference, critic, distillation }: RunConfig): RoleShapes {
  return {
    rewardModels: namedRewardModels(rewards).map(({ key, path, device, dtype }) => {
      const shape = readShape(path, key);
      return { shape: { ...shape, dtype: dtype ?? shape.dtype }, device };
    }),
    reference: reference === null ? null : readShape(reference, "reference"),
    critic: critic.path === null ? null : readShape(critic.path, "critic.path"),
    teachers: Object.entries(distillation?.teachers ?? {}).flatMap(([name, teacher]) =>
      teacher.type === "folder" ? [readShape(teacher.path, `distillation.teachers.${name}.path`)] : [],
    ),
  };
}

/** The shape of the model that a run starts from. */
export function modelShape({ path, preset }: Pick<RunConfig["model"], "path" | "preset">): CausalLmConfig {
  return path === null ? presetConfig(preset ?? "nano", PRESET_VOCABULARY) : readShape(path, "model.path");
}

/** The shape of a model by its folder, which the run file names under `key`. */
export function readShape(path: string, key: string): CausalLmConfig {
  const folder = resolve(path);
  if (path.endsWith(".gguf") && existsSync(folder)) return parseConfig(openGgufModel(folder).config, path);
  const file = join(folder, "config.json");
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw missing(
      key,
      path,
      folder,
      `It must be a folder in Hugging Face layout, with config.json, tokenizer.json and model.safetensors, a .gguf file, or the name of a model on the Hub, as owner/name.${hubHint(path)}`,
    );
  }
  if (!existsSync(file)) throw missing(key, path, file, "The folder is there, but it holds no model.");
  return parseConfig(parseJson(file, key), file);
}

function parseJson(file: string, key: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (cause) {
    throw new RerollError(
      "FILE_INVALID",
      `${key} cannot be used: ${file} is not JSON. ${String(cause)}.`,
      { file },
      { cause },
    );
  }
}

/** A reward model as the run file names it. */
interface NamedRewardModel {
  readonly key: string;
  readonly path: string;
  readonly device: string;
  /** Absent: as it is stored. */
  readonly dtype: CausalLmConfig["dtype"] | undefined;
}

/** The reward models of a run, also inside of combinations. Each is loaded by itself. */
export function namedRewardModels(rewards: RunConfig["rewards"]): readonly NamedRewardModel[] {
  return Object.entries(rewards).flatMap(([domain, reward]) => rewardModels(reward, `rewards.${domain}`));
}

function rewardModels(reward: object, key: string): readonly NamedRewardModel[] {
  const { type, path, parts, device, dtype } = reward as Partial<Record<string, unknown>>;
  if (type === "reward-model" && typeof path === "string")
    return [
      {
        key: `${key}.path`,
        path,
        device: String(device ?? "cpu"),
        dtype: (dtype ?? undefined) as NamedRewardModel["dtype"],
      },
    ];
  if (type !== "combine" || !Array.isArray(parts)) return [];
  return parts.flatMap((part, i) => rewardModels(part.reward, `${key}.parts.${i}.reward`));
}

function checkData(source: DataOptions, key: string, pending: ReadonlySet<string>): void {
  switch (source.type) {
    case "mix":
      for (const [i, { source: inner }] of source.parts.entries())
        checkData(inner, `${key}.parts.${i}.source`, pending);
      return;
    case "curriculum":
      checkData(source.source, `${key}.source`, pending);
      return;
    case "dataset":
    case "jsonl":
    case "json":
    case "parquet":
      if (!pending.has(`${key}.path`)) expectData(source.path, key);
      return;
    case "rows":
    case "env":
      return;
  }
}

/** Throws for the first path of data that is missing. */
export function expectData(paths: string | readonly string[], key: string): void {
  for (const path of [paths].flat()) {
    if (existsSync(path)) continue;
    throw missing(`${key}.path`, path, resolve(path), `Paths count from where the command is run.${hubHint(path)}`);
  }
}

/** Said where a path might be meant as a name on the Hub. */
function hubHint(path: string): string {
  return parseHubName(path) === null ? "" : ` If the Hub is meant, write hf://${path}.`;
}

function missing(key: string, given: string, looked: string, what: string): RerollError {
  return new RerollError(
    "FILE_NOT_FOUND",
    `${key} names ${JSON.stringify(given)}, and ${looked} does not exist. ${what}`,
    {
      key,
      path: looked,
    },
  );
}
