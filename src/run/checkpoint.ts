/**
 * Checkpoints of a run: `checkpoints/step-000040/` with `model/` in Hugging Face layout, `state/` of the trainer, `loop.json`, and a
 * manifest of what is in them.
 *
 * A checkpoint is written beside its place and renamed when it is complete, so a process may be killed at any moment. One that was
 * damaged later is found out before a run resumes from it.
 */
import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { replacePath } from "../files/replace-file.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { LoopPosition } from "../loops/loop-parts.ts";
import type { Trainer } from "../training/trainer.ts";
import { damageOf, readChecked, writeChecked, writeManifest } from "./checkpoint-files.ts";

/** Everything beside the trainer's own state. */
export interface LoopState extends LoopPosition {
  readonly rollout: JsonValue;
  /** The best validation so far, and its step. */
  readonly best: { readonly step: number; readonly value: number } | null;
  /** The metric by which it is the best. Absent from checkpoints of earlier versions. */
  readonly metric?: string | undefined;
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
      await writeChecked(join(place, LOOP), state);
      return place;
    }
    await replacePath(place, async (draft) => {
      await mkdir(draft, { recursive: true });
      await trainer.saveModel(join(draft, "model"));
      await trainer.saveState(join(draft, "state"));
      await writeManifest(draft);
      await writeChecked(join(draft, LOOP), state);
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
    const state = (await readChecked(join(folder, LOOP))) as unknown as LoopState;
    this.#current = folder;
    return { folder, state };
  }

  /**
   * Makes the latest checkpoint that is undamaged, or that of a step, the latest of all. Those after it are set aside: under other
   * names, with nothing deleted. Says in sentences what it set aside and why.
   */
  async settle(step?: number): Promise<{ readonly step: number; readonly statements: readonly string[] }> {
    const names = await this.#names();
    const wanted = step === undefined ? names : names.slice(0, names.indexOf(this.#expectStep(names, step)) + 1);
    const broken: { readonly name: string; readonly damage: string }[] = [];
    for (const name of wanted.toReversed()) {
      const damage = await damageOf(join(this.#folder, name), LOOP);
      if (damage === null) {
        const later = names.slice(wanted.length);
        await Promise.all([
          ...broken.map((one) => this.#setAside(one.name, "damaged")),
          ...later.map((one) => this.#setAside(one, "replaced")),
        ]);
        return { step: stepOf(name), statements: statementsOf(name, broken, later) };
      }
      broken.push({ name, damage });
      if (step !== undefined) break;
    }
    const list = broken.map(({ name, damage }) => `${name}: ${damage}`).join("; ");
    if (broken.length > 0)
      throw new RerollError("CHECKPOINT_BROKEN", `No checkpoint in ${this.#folder} is whole. ${list}.`, {});
    throw new RerollError("CHECKPOINT_NOT_FOUND", `${this.#folder} has no checkpoint to go on from. Start a new run.`);
  }

  #expectStep(names: readonly string[], step: number): string {
    const found = names.find((name) => stepOf(name) === step);
    if (found !== undefined) return found;
    const known = names.length === 0 ? "none" : names.map(stepOf).join(", ");
    throw new RerollError(
      "CHECKPOINT_NOT_FOUND",
      `--resume-from ${step}: ${this.#folder} has no checkpoint of this step. It has: ${known}.`,
      { step },
    );
  }

  /** An earlier one of the same name and fate makes room. */
  async #setAside(name: string, fate: string): Promise<void> {
    const place = join(this.#folder, `${name}.${fate}`);
    await rm(place, { recursive: true, force: true });
    await rename(join(this.#folder, name), place);
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
    return names.filter((name) => /^step-\d+$/.test(name)).sort((a, b) => stepOf(a) - stepOf(b));
  }
}

const LOOP = "loop.json";

function nameOf(step: number): string {
  return `step-${String(step).padStart(6, "0")}`;
}

function stepOf(name: string): number {
  return Number(name.slice("step-".length));
}

function statementsOf(
  name: string,
  broken: readonly { readonly name: string; readonly damage: string }[],
  later: readonly string[],
): string[] {
  return [
    ...broken.map(
      (one) => `The checkpoint ${one.name} is damaged (${one.damage}) and was set aside as ${one.name}.damaged.`,
    ),
    ...(later.length === 0
      ? []
      : [`Set aside what came after ${name}: ${later.map((one) => `${one}.replaced`).join(", ")}.`]),
  ];
}
