/**
 * Checkpoints of a run: `checkpoints/step-000040/` with `model/` in Hugging Face layout, `state/` of the trainer, and `loop.json`.
 *
 * A checkpoint is written beside its place and renamed when it is complete, so a process may be killed at any moment.
 */
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { replacePath, replaceText } from "../files/replace-file.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { LoopPosition } from "../loops/loop-parts.ts";
import type { Trainer } from "../training/trainer.ts";

/** Everything beside the trainer's own state. */
export interface LoopState extends LoopPosition {
  readonly rollout: JsonValue;
  /** The best validation so far, and its step. */
  readonly best: { readonly step: number; readonly value: number } | null;
  /** Validations since the best one. */
  readonly numWithoutBetter: number;
  /** The step that was validated last; -1 for none. */
  readonly validatedStep: number;
  readonly replay: JsonValue;
}

/** The part of a trainer that checkpoints use. */
export type SavedTrainer = Pick<Trainer, "saveModel" | "saveState">;

export interface Checkpoint {
  readonly folder: string;
  readonly state: LoopState;
}

export class Checkpoints {
  readonly #folder: string;
  readonly #numKept: number;
  /** Folder of the checkpoint that was saved or loaded last. */
  #current: string | null = null;

  constructor(runFolder: string, numKept: number) {
    this.#folder = join(runFolder, "checkpoints");
    this.#numKept = numKept;
  }

  /** Saves a checkpoint. Where the step has one already, only the state beside the weights is written again. */
  async save(trainer: SavedTrainer, state: LoopState): Promise<string> {
    const place = join(this.#folder, nameOf(state.step));
    if (place === this.#current) {
      await writeState(place, state);
      return place;
    }
    await replacePath(place, async (draft) => {
      await mkdir(draft, { recursive: true });
      await trainer.saveModel(join(draft, "model"));
      await trainer.saveState(join(draft, "state"));
      await writeState(draft, state);
    });
    this.#current = place;
    await this.#removeOld(state);
    return place;
  }

  /** The latest complete checkpoint, or null. */
  async latest(): Promise<Checkpoint | null> {
    const last = (await this.#names()).at(-1);
    if (last === undefined) return null;
    const folder = join(this.#folder, last);
    const state = await readState(join(folder, "loop.json"));
    this.#current = folder;
    return { folder, state };
  }

  async #removeOld({ best }: LoopState): Promise<void> {
    const names = await this.#names();
    const old = names.slice(0, Math.max(0, names.length - this.#numKept));
    const isBest = (name: string) => best !== null && name === nameOf(best.step);
    await Promise.all(
      old.filter((name) => !isBest(name)).map((name) => rm(join(this.#folder, name), { recursive: true, force: true })),
    );
  }

  async #names(): Promise<string[]> {
    if (!existsSync(this.#folder)) return [];
    const names = await readdir(this.#folder);
    return names.filter((name) => /^step-\d+$/.test(name)).sort();
  }
}

function nameOf(step: number): string {
  return `step-${String(step).padStart(6, "0")}`;
}

async function writeState(folder: string, state: LoopState): Promise<void> {
  await replaceText(join(folder, "loop.json"), `${JSON.stringify(state)}\n`);
}

async function readState(path: string): Promise<LoopState> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as LoopState;
  } catch (cause) {
    throw new RerollError("CHECKPOINT_BROKEN", `${path} cannot be read: ${String(cause)}.`, { path }, { cause });
  }
}
