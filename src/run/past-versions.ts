/**
 * Past versions of the policy, for players who play against it: an engine for each interval, whose weights stay as they are until so
 * many steps have passed.
 *
 * The weights go through files, in a folder of the run and in each checkpoint, so that a resumed run plays against the very same ones.
 */
import { constants, existsSync } from "node:fs";
import { cp, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../flow/clock.ts";
import type { Engine } from "../generation/engine.ts";
import type { ThreadedEngine } from "../generation/local/threaded-engine.ts";
import type { Trainer } from "../training/trainer.ts";
import { createFileSync } from "../weight-sync/file-sync.ts";
import type { WeightSync } from "../weight-sync/weight-sync.ts";
import type { SavedTrainer } from "./checkpoint.ts";

interface PastParts {
  readonly intervals: readonly number[];
  readonly startEngine: () => Promise<ThreadedEngine>;
  readonly runFolder: string;
  readonly clock: Clock;
}

interface PastVersion {
  readonly every: number;
  readonly engine: ThreadedEngine;
  /** Where its weights lie, as `v<version>`. */
  readonly folder: string;
  /** The step that its weights are from; null before the first publication. */
  version: number | null;
}

export class PastVersions {
  readonly #versions: readonly PastVersion[];
  readonly #clock: Clock;

  private constructor(versions: readonly PastVersion[], clock: Clock) {
    this.#versions = versions;
    this.#clock = clock;
  }

  /** What a run that was stopped has left in its folder is removed: checkpoints have what counts. */
  static async open({ intervals, startEngine, runFolder, clock }: PastParts): Promise<PastVersions> {
    const versions: PastVersion[] = [];
    await rm(join(runFolder, PAST), { recursive: true, force: true });
    try {
      for (const every of intervals) {
        const folder = join(runFolder, PAST, nameOf(every));
        versions.push({ every, engine: await startEngine(), folder, version: null });
      }
    } catch (cause) {
      for (const { engine } of versions) await engine.close();
      throw cause;
    }
    return new PastVersions(versions, clock);
  }

  /** The engine of the players with this interval. */
  engineOf(every: number): Engine | undefined {
    return this.#versions.find((one) => one.every === every)?.engine;
  }

  /** Publishes to the engine of the run, and then to those whose interval has passed since their weights were. */
  follow(sync: WeightSync, trainer: Pick<Trainer, "saveMerged">): WeightSync {
    return {
      publish: async (version) => {
        const metrics = await sync.publish(version);
        for (const past of this.#versions) {
          if (past.version !== null && intervalOf(past, version) <= intervalOf(past, past.version)) continue;
          const loadWeights = (folder: string) => past.engine.loadWeights(version, folder);
          const saveModel = (folder: string) => trainer.saveMerged(folder);
          const { folder } = past;
          const files = { saveModel, folder, targets: [{ loadWeights }], numKept: 1, clock: this.#clock };
          await createFileSync(files).publish(version);
          past.version = version;
        }
        return metrics;
      },
    };
  }

  /** A trainer whose state is saved together with the past versions. */
  savedWith(trainer: SavedTrainer): SavedTrainer {
    return {
      saveModel: (folder, maxHeldBytes) => trainer.saveModel(folder, maxHeldBytes),
      saveState: async (folder, maxHeldBytes) => {
        const held = await trainer.saveState(folder, maxHeldBytes);
        for (const { folder: source, every } of this.#versions) {
          await cp(source, join(folder, PAST, nameOf(every)), COPY);
        }
        return held;
      },
    };
  }

  /** Takes up what `savedWith` has written. An interval that is new gets its weights at the next publication. */
  async restore(stateFolder: string): Promise<void> {
    for (const past of this.#versions) {
      const saved = join(stateFolder, PAST, nameOf(past.every));
      if (!existsSync(saved)) continue;
      await cp(saved, past.folder, COPY);
      const [name] = (await readdir(past.folder)).filter((one) => /^v\d+$/.test(one));
      if (name === undefined) continue;
      past.version = Number(name.slice(1));
      await past.engine.loadWeights(past.version, join(past.folder, name));
    }
  }

  async close(): Promise<void> {
    for (const { engine } of this.#versions) await engine.close();
  }
}

const PAST = "past";
// Where the file system can, a copy shares its bytes with the original.
const COPY = { recursive: true, mode: constants.COPYFILE_FICLONE };

function nameOf(every: number): string {
  return `every-${every}`;
}

function intervalOf({ every }: PastVersion, step: number): number {
  return Math.floor(step / every);
}
