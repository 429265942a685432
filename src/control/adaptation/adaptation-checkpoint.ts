/** The whole state of an adaptation trainer in a folder. Loading it gives the same numbers as never having stopped. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RerollError } from "../../errors/reroll-error.ts";
import { loadOptimizer, saveOptimizer } from "../../training/trainer-checkpoint.ts";
import type { AdaptationTrainer, AdaptationTrainerState } from "./trainer.ts";

/** All networks and statistics, the four optimizers, and the phase. */
export function saveAdaptationTrainer(trainer: AdaptationTrainer, folder: string): void {
  mkdirSync(folder, { recursive: true });
  for (const [name, optimizer] of Object.entries(trainer.optimizers)) {
    saveOptimizer(optimizer, parametersBeside(name, trainer), join(folder, name));
  }
  writeFileSync(join(folder, "trainer.json"), `${JSON.stringify(trainer.state)}\n`);
}

/** Into a trainer of the same networks. */
export function loadAdaptationTrainer(trainer: AdaptationTrainer, folder: string): void {
  for (const [name, optimizer] of Object.entries(trainer.optimizers)) {
    loadOptimizer(optimizer, parametersBeside(name, trainer), join(folder, name));
  }
  trainer.restore(readState(join(folder, "trainer.json")));
}

/** All weights lie beside the teacher's optimizer: some belong to no optimizer at all. */
function parametersBeside(name: string, { policy }: AdaptationTrainer) {
  return name === "teacher" ? policy.namedParameters() : new Map();
}

function readState(path: string): AdaptationTrainerState {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as AdaptationTrainerState;
  } catch (cause) {
    throw new RerollError("CHECKPOINT_BROKEN", `${path} cannot be read: ${String(cause)}.`, { path }, { cause });
  }
}
