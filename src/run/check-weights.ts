/** Whether the weights that a run names are whole, and reward models have a score. Reads headers, and no weights. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { valueHeadFile } from "../models/causal-lm/value-head.ts";
import { resolveCheckpoint } from "../models/formats/resolve-checkpoint.ts";
import { namedRewardModels } from "./check-files.ts";
import type { RunConfig } from "./run-config.ts";

/** Throws for the first model that cannot be loaded. */
export function checkWeights({ model, reference, critic, distillation, rewards }: RunConfig): void {
  const teachers = Object.entries(distillation?.teachers ?? {}).map(([name, teacher]) =>
    teacher.type === "folder" ? ([`distillation.teachers.${name}.path`, teacher.path] as const) : null,
  );
  const others = [
    ["model.path", model.path] as const,
    ["reference", reference] as const,
    ["critic.path", critic.path] as const,
  ];
  for (const named of [...others, ...teachers]) {
    if (named !== null && named[1] !== null) expectWeights(named[0], named[1]);
  }
  for (const { key, path } of namedRewardModels(rewards)) expectScore(key, path);
}

/** Throws where files of weights are missing, cut off or contradict each other. */
export function expectWeights(key: string, folder: string): void {
  // The header of a GGUF file is read with its shape.
  if (folder.endsWith(".gguf")) return;
  tensorsOf(key, folder);
}

function expectScore(key: string, folder: string): void {
  if (tensorsOf(key, folder).has("score.weight") || existsSync(join(folder, valueHeadFile))) return;
  throw new RerollError(
    "FILE_INVALID",
    `${key} names ${JSON.stringify(folder)}, which holds a language model and no reward model: its weights have no score.weight. ` +
      'Train one from it with objective: { type: "reward-model" }, or name the folder of another.',
    { key, folder },
  );
}

function tensorsOf(key: string, folder: string): ReadonlyMap<string, unknown> {
  try {
    return resolveCheckpoint(folder).tensors;
  } catch (cause) {
    if (!(cause instanceof RerollError)) throw cause;
    throw new RerollError("FILE_INVALID", `${key} cannot be loaded. ${cause.message}`, { key, folder }, { cause });
  }
}
