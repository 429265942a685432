/**
 * Weight sync for engines behind other servers: every version is written to a folder, and the servers are told to load
 * it.
 *
 * `<folder>/v<version>` holds the weights in Hugging Face layout. It is written beside its place and renamed, so that a
 * server sees it whole or not at all, and the last few are kept for servers that start late. Servers must reach the
 * same files under the same path: one machine, or a shared file system.
 */
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { replacePath } from "../files/replace-file.ts";
import type { Clock } from "../flow/clock.ts";
import type { WeightSync } from "./weight-sync.ts";

interface FileSyncParts {
  /** Writes the trainer's weights to a folder: `trainer.saveMerged` for whole models, `trainer.saveModel` for adapters. */
  readonly saveModel: (folder: string) => Promise<void>;
  /** What the folders hold. Default "files": whole models. */
  readonly holds?: "files" | "adapters";
  readonly folder: string;
  readonly targets: readonly FileTarget[];
  /**
   * Number of versions kept on disk. Default 2: a server may still be reading the last one when the next is written.
   */
  readonly numKept?: number;
  readonly clock: Clock;
}

/** A server that loads weights from files. */
export interface FileTarget {
  /** Resolves when tokens are drawn with these weights. */
  loadWeights(folder: string, version: number): Promise<void>;
}

export function createFileSync({
  saveModel,
  folder,
  targets,
  holds = "files",
  numKept = 2,
  clock,
}: FileSyncParts): WeightSync {
  // Servers have a working folder of their own.
  const root = resolve(folder);
  return {
    async publish(version) {
      const startedMs = clock();
      const place = join(root, `v${version}`);
      await mkdir(root, { recursive: true });
      let numBytes = 0;
      await replacePath(place, async (draft) => {
        await saveModel(draft);
        numBytes = await weightBytes(draft, holds);
      });
      await Promise.all(targets.map((target) => target.loadWeights(place, version)));
      await removeOld(root, version, numKept);
      return { "sync/ms": clock() - startedMs, "sync/bytes": numBytes * targets.length };
    },
  };
}

async function weightBytes(folder: string, holds: "files" | "adapters"): Promise<number> {
  const names = await readdir(folder);
  if (holds === "files" && names.includes("adapter_config.json")) {
    throw new RerollError(
      "ADAPTERS_ONLY",
      "The weights were saved as adapters alone, and servers load whole models from files. Save them with trainer.saveMerged.",
    );
  }
  const files = names.filter((name) => name.endsWith(".safetensors"));
  const sizes = await Promise.all(files.map(async (name) => (await stat(join(folder, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** Also removes versions above the one just published, which a run that went back to a checkpoint has left behind. */
async function removeOld(root: string, version: number, numKept: number): Promise<void> {
  const versions = (await readdir(root)).flatMap((name) => /^v(\d+)$/.exec(name)?.[1] ?? []).map(Number);
  const old = versions.filter((one) => one <= version - numKept || one > version);
  await Promise.all(old.map((one) => rm(join(root, `v${one}`), { recursive: true, force: true })));
}
