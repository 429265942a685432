/**
 * How far a warm start has come: `<run folder>/warm-start.partial/`, from which it goes on exactly where it was stopped.
 *
 * Written when the run is stopped, and as often as checkpoints are by time. Gone once the warm start is complete.
 */
import { existsSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { replacePath } from "../files/replace-file.ts";
import type { Clock } from "../flow/clock.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { Trainer } from "../training/trainer.ts";
import { readChecked, writeChecked } from "./checkpoint-files.ts";

/** Where the examples of a warm start come from, with a position that can be saved. */
export interface Resumable {
  position(): JsonValue;
  restore(position: JsonValue): Promise<void>;
}

interface ProgressParts {
  readonly runFolder: string;
  readonly trainer: Pick<Trainer, "saveState" | "loadState">;
  readonly examples: Resumable;
  readonly clock: Clock;
  /** Minutes between two saves; null for none but the one when the run is stopped. */
  readonly minutes: number | null;
}

export class WarmStartProgress {
  readonly #parts: ProgressParts;
  #savedMs: number;

  constructor(parts: ProgressParts) {
    this.#parts = parts;
    this.#savedMs = parts.clock();
  }

  /** Puts trainer and examples back to where they were. Out: the number of steps that are done. */
  async resume(): Promise<number> {
    const { runFolder, trainer, examples } = this.#parts;
    const step = await stepsDone(runFolder);
    if (step === 0) return 0;
    await trainer.loadState(join(partialFolder(runFolder), "state"));
    const saved = (await readChecked(positionFile(runFolder))) as unknown as SavedPosition;
    await examples.restore(saved.examples);
    return step;
  }

  /** After each step. */
  async afterStep(step: number, isStopped: boolean): Promise<void> {
    const { minutes, clock } = this.#parts;
    const isDue = minutes !== null && clock() - this.#savedMs >= 60_000 * minutes;
    if (isStopped || isDue) await this.#save(step);
  }

  /** The warm start is complete. */
  async clear(): Promise<void> {
    await rm(partialFolder(this.#parts.runFolder), { recursive: true, force: true });
  }

  async #save(step: number): Promise<void> {
    const { runFolder, trainer, examples, clock } = this.#parts;
    const position: SavedPosition = { step, examples: examples.position() };
    await replacePath(partialFolder(runFolder), async (draft) => {
      await mkdir(draft, { recursive: true });
      await trainer.saveState(join(draft, "state"));
      await writeChecked(join(draft, POSITION), position);
    });
    this.#savedMs = clock();
  }
}

interface SavedPosition {
  readonly step: number;
  readonly examples: JsonValue;
}

const POSITION = "position.json";

/** The steps of a warm start that were saved before it was complete; 0 where none were. */
export async function stepsDone(runFolder: string): Promise<number> {
  if (!existsSync(positionFile(runFolder))) return 0;
  return ((await readChecked(positionFile(runFolder))) as unknown as SavedPosition).step;
}

function partialFolder(runFolder: string): string {
  return join(runFolder, "warm-start.partial");
}

function positionFile(runFolder: string): string {
  return join(partialFolder(runFolder), POSITION);
}
