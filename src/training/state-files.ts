/** Parameters and what an optimizer knows of them, in the files of a folder, for trainers that are all in one place. */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { type FileSink, toDisk } from "../models/formats/file-sink.ts";
import { resolveCheckpoint } from "../models/formats/resolve-checkpoint.ts";
import { MappedCheckpoint, tensorSource } from "../models/formats/tensor-files.ts";
import { tensorScope } from "../torch/scope.ts";
import type { TrainedState } from "./strategy/parameter-set.ts";

const prefix = "parameter.";

/** Writes both, in a folder that need not be there. */
export function writeState(folder: string, { parameters, optimizer }: TrainedState): void {
  mkdirSync(folder, { recursive: true });
  tensorScope(() => {
    const trained = [...parameters].map(([name, value]) => tensorSource(`${prefix}${name}`, value.detach()));
    const known = [...optimizer.tensors].map(([name, value]) => tensorSource(name, value));
    toDisk.tensors(join(folder, "optimizer.safetensors"), [...trained, ...known]);
  });
  putJson(toDisk, join(folder, "optimizer.json"), optimizer.numbers);
}

/** A line of JSON as a file. */
export function putJson(sink: FileSink, path: string, value: object): void {
  sink.bytes(path, new TextEncoder().encode(`${JSON.stringify(value)}\n`));
}

/** Calls `use` with what was written; the tensors live as long as the call. */
export function readState(folder: string, use: (state: TrainedState) => void): void {
  const numbers = readNumbers(join(folder, "optimizer.json"));
  const resolved = resolveCheckpoint(join(folder, "optimizer.safetensors"));
  const mapped = new MappedCheckpoint(resolved);
  try {
    tensorScope(() => {
      const all = [...resolved.tensors.keys()].map((name) => [name, mapped.read(name)] as const);
      const trained = all.filter(([name]) => name.startsWith(prefix));
      use({
        parameters: new Map(trained.map(([name, value]) => [name.slice(prefix.length), value])),
        optimizer: { tensors: new Map(all.filter(([name]) => !name.startsWith(prefix))), numbers },
      });
    });
  } finally {
    mapped.dispose();
  }
}

function readNumbers(path: string): Record<string, number> {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Record<string, number>;
  } catch (cause) {
    throw new RerollError("CHECKPOINT_BROKEN", `${path} cannot be read: ${String(cause)}.`, { path }, { cause });
  }
}
