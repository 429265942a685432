/**
 * The whole state of a trainer in a folder, for PPO and adaptation alike. A trainer that was loaded continues to the bit as if
 * the run had never stopped.
 *
 * `<name>/` holds an optimizer and the parameters saved beside it, as safetensors; `trainer.json` holds counters.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { noGrad } from "../torch/autograd.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import type { Tensor } from "../torch/tensor.ts";
import { readState, writeState } from "../training/state-files.ts";

/** Optimizers by the name of their folder, with the parameters that are saved beside each. */
export type SavedParts = Readonly<
  Record<string, { readonly optimizer: Optimizer; readonly parameters: ReadonlyMap<string, Tensor> }>
>;

/** A trainer that can be saved. */
interface SavedTrainer<State> {
  /** Optimizers and parameters. Together they hold every weight. */
  savedParts(): SavedParts;
  /** Everything else, as plain data. */
  state(): State;
  restore(state: State): void;
}

/** Writes the state into a folder, which is created if it is missing. */
export function saveTrainer(trainer: SavedTrainer<unknown>, folder: string): void {
  mkdirSync(folder, { recursive: true });
  for (const [name, { optimizer, parameters }] of Object.entries(trainer.savedParts())) {
    writeState(join(folder, name), { parameters, optimizer: optimizer.stateDict() });
  }
  writeFileSync(join(folder, "trainer.json"), `${JSON.stringify(trainer.state())}\n`);
}

/** Puts a saved state into a trainer of the same networks. */
export function loadTrainer<State>(trainer: SavedTrainer<State>, folder: string): void {
  for (const [name, { optimizer, parameters }] of Object.entries(trainer.savedParts())) {
    readState(join(folder, name), (saved) => {
      noGrad(() => {
        for (const [path, parameter] of parameters) parameter.copy_(saved.parameters.get(path)!);
      });
      optimizer.loadStateDict(saved.optimizer);
    });
  }
  const path = join(folder, "trainer.json");
  try {
    trainer.restore(JSON.parse(readFileSync(path, "utf8")) as State);
  } catch (cause) {
    throw new RerollError("CHECKPOINT_BROKEN", `${path} cannot be read: ${String(cause)}.`, { path }, { cause });
  }
}

/** Refuses to resume a run whose networks differ from those of the checkpoint: compares the shapes key by key. */
export function expectSameShape<Shape extends object>(shape: Shape, saved: Shape, folder: string): void {
  for (const key of Object.keys(saved) as (keyof Shape & string)[]) {
    const [asked, found] = [JSON.stringify(shape[key]), JSON.stringify(saved[key])];
    if (asked === found) continue;
    throw new RerollError(
      "CHECKPOINT_MISMATCH",
      `The policy in ${folder} has ${key} ${found}, and this run asks for ${asked}. Go on with the environment and the ` +
        "policy that the run began with, or start a new one without --resume.",
    );
  }
}
