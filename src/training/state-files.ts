/** Parameters and what an optimizer knows of them, in the files of a folder. */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { type FileSink, toDisk } from "../models/formats/file-sink.ts";
import { resolveCheckpoint } from "../models/formats/resolve-checkpoint.ts";
import { inFileOrder } from "../models/formats/safetensors/write-safetensors.ts";
import { laterSource, MappedCheckpoint, tensorSource } from "../models/formats/tensor-files.ts";
import { tensorScope } from "../torch/scope.ts";
import type { CollectedState, TrainedState } from "./strategy/parameter-set.ts";

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

/**
 * Writes what ranks have parts of, one tensor after another: no more than a layer of it is whole at a time. Call it on all ranks, of which
 * one is the writer.
 */
export function writeCollected(
  folder: string,
  { tensors, numbers }: CollectedState,
  isWriter: boolean,
  sink: FileSink,
): void {
  const sources = tensors.map(({ of, name, dtype, shape, gather }) =>
    laterSource(of === "parameters" ? `${prefix}${name}` : name, { dtype, shape }, gather),
  );
  if (!isWriter) {
    const gathers = new Map(sources.map((source, i) => [source, tensors[i]!.gather]));
    for (const source of inFileOrder(sources)) tensorScope(() => void gathers.get(source)!());
    return;
  }
  mkdirSync(folder, { recursive: true });
  sink.tensors(join(folder, "optimizer.safetensors"), sources);
  putJson(sink, join(folder, "optimizer.json"), numbers);
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
