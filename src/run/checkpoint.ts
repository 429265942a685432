/**
 * Checkpoints of a run: `checkpoints/step-000040/` with `model/` in Hugging Face layout, `state/` of the trainer, `loop.json`, and a
 * manifest of what is in them.
 *
 * A checkpoint is written beside its place and renamed when it is complete, so a process may be killed at any moment. One that was
 * damaged later is found out before a run resumes from it.
 *
 * Training waits only while its state is copied into memory; a thread writes it while training goes on. What does not fit into half of the
 * memory that is free is written at once. Waits for: the checkpoint before, where that is still being written.
 */
import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { freemem } from "node:os";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { replacePath } from "../files/replace-file.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { LoopPosition } from "../loops/loop-parts.ts";
import { freeHeld, type HeldFiles } from "../models/formats/file-sink.ts";
import type { Trainer } from "../training/trainer.ts";
import type { Remote } from "../workers/remote.ts";
import { startInThread } from "../workers/start-in-thread.ts";
import { tensorCarrier } from "../workers/tensor-carrier.ts";
import { damageOf, readChecked, writeChecked } from "./checkpoint-files.ts";
import type { CheckpointWriter } from "./checkpoint-writer-worker.ts";
import { writeManifest } from "./manifest.ts";

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

/** A checkpoint that is being written. */
interface Pending {
  readonly place: string;
  /** What is known of the step; what is learned of it before the checkpoint is complete goes into it. */
  state: LoopState;
  /** When it is in its place. */
  readonly complete: Promise<void>;
}

export class Checkpoints {
  readonly #folder: string;
  readonly #numKept: number;
  /** Folder of the checkpoint that was saved or loaded last. */
  #current: string | null = null;
  #pending: Pending | null = null;
  #failure: Error | null = null;
  #writer: Remote<CheckpointWriter> | null = null;

  constructor(runFolder: string, numKept: number) {
    this.#folder = join(runFolder, "checkpoints");
    this.#numKept = numKept;
  }

  /**
   * Saves a checkpoint, and says where it will be. Resolves when training may go on; `settled` says when the checkpoint is complete. Where
   * the step has one already, only the state beside the weights is written again. Rejects where the checkpoint before could not be written.
   */
  async save(trainer: SavedTrainer, state: LoopState): Promise<string> {
    const place = join(this.#folder, nameOf(state.step));
    if (this.#pending?.place === place) {
      this.#pending.state = state;
      return place;
    }
    await this.settled();
    if (place === this.#current) {
      await writeChecked(join(place, LOOP), state);
      return place;
    }
    await new Promise<void>((resolve, reject) => {
      const complete = this.#write(trainer, place, resolve);
      this.#pending = { place, state, complete };
      complete.then(resolve, (cause: Error) => {
        this.#failure = cause;
        this.#pending = null;
        reject(cause);
      });
    });
    return place;
  }

  /** When what was saved is complete. Rejects where it could not be written. */
  async settled(): Promise<void> {
    await this.#pending?.complete;
    this.expectWritten();
  }

  /** Throws where a checkpoint could not be written in the meantime. */
  expectWritten(): void {
    if (this.#failure !== null) throw this.#failure;
  }

  /** Completes what is being written, and ends the thread. */
  async close(): Promise<void> {
    // Whoever counts on it has asked `settled`.
    await this.#pending?.complete.catch(() => {});
    await this.#writer?.close();
  }

  /** @param onHeld called where training may go on before the checkpoint is complete */
  async #write(trainer: SavedTrainer, place: string, onHeld: () => void): Promise<void> {
    const stateNow = () => this.#pending!.state;
    let written: LoopState | null = null;
    await replacePath(place, async (draft) => {
      await mkdir(draft, { recursive: true });
      const files = await hold(trainer, draft);
      if (files.size > 0) onHeld();
      await (files.size > 0 ? this.#writeHeld(draft, files) : writeManifest(draft));
      written = stateNow();
      await writeChecked(join(draft, LOOP), written);
    });
    await this.#removeOld(stateNow());
    while (written !== stateNow()) {
      written = stateNow();
      await writeChecked(join(place, LOOP), written);
    }
    this.#current = place;
    this.#pending = null;
  }

  async #writeHeld(draft: string, files: HeldFiles): Promise<void> {
    this.#writer ??= startInThread(new URL("checkpoint-writer-worker", import.meta.url), null, {
      carrier: tensorCarrier,
      lost: (how) => new RerollError("WORKER_LOST", `The thread that writes checkpoints ${how}.`),
    });
    const writing = this.#writer.ask.write(draft, files);
    // The memory is the thread's from here on, which frees it file by file.
    freeHeld(files);
    await writing;
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
    await this.#removeDrafts();
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

  /** What a process that was killed has not completed. */
  async #removeDrafts(): Promise<void> {
    const names = existsSync(this.#folder) ? await readdir(this.#folder) : [];
    const drafts = names.filter((name) => /^step-\d+\.writing$/.test(name));
    await Promise.all(drafts.map((name) => rm(join(this.#folder, name), { recursive: true, force: true })));
  }

  /** An earlier one of the same name and fate makes room. */
  async #setAside(name: string, fate: string): Promise<void> {
    const place = join(this.#folder, `${name}.${fate}`);
    await rm(place, { recursive: true, force: true });
    await rename(join(this.#folder, name), place);
  }

  /** Keeps the best so far, and what was the best for those that are kept: a run may go back to one of them. */
  async #removeOld({ best }: LoopState): Promise<void> {
    const names = await this.#names();
    const old = names.slice(0, Math.max(0, names.length - this.#numKept));
    const bests = new Set(best === null ? [] : [nameOf(best.step)]);
    for (const name of names.slice(old.length)) {
      const state = await readChecked(join(this.#folder, name, LOOP)).catch(() => null);
      const its = (state as unknown as LoopState | null)?.best ?? null;
      if (its !== null) bests.add(nameOf(its.step));
    }
    await Promise.all(
      old
        .filter((name) => !bests.has(name))
        .map((name) => rm(join(this.#folder, name), { recursive: true, force: true })),
    );
  }

  async #names(): Promise<string[]> {
    if (!existsSync(this.#folder)) return [];
    const names = await readdir(this.#folder);
    return names.filter((name) => /^step-\d+$/.test(name)).sort((a, b) => stepOf(a) - stepOf(b));
  }
}

const LOOP = "loop.json";

/** Everything that a checkpoint holds beside the position of the loop: on disk, or in memory as far as there is room for it. */
async function hold(trainer: SavedTrainer, draft: string): Promise<HeldFiles> {
  const model = await trainer.saveModel(join(draft, "model"), roomFor());
  const state = await trainer.saveState(join(draft, "state"), roomFor());
  return new Map([...model, ...state]);
}

/** Half of the memory that is free, in bytes: training, engines and the file cache want some too. */
function roomFor(): number {
  return Math.floor((process.availableMemory?.() ?? freemem()) / 2);
}

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
