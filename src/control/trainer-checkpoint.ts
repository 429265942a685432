/** The whole state of a control trainer in a folder. Loading it gives the same numbers as never having stopped. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { loadOptimizer, saveOptimizer } from "../training/trainer-checkpoint.ts";
import type { ControlTrainer, ControlTrainerState } from "./ppo/trainer.ts";

/** Weights, statistics and optimizers as safetensors, counters as JSON. */
export function saveControlTrainer(trainer: ControlTrainer, folder: string): void {
  mkdirSync(folder, { recursive: true });
  saveOptimizer(trainer.policyOptimizer, trainer.policy.namedParameters(), join(folder, "policy"));
  saveOptimizer(trainer.criticOptimizer, trainer.critic.namedParameters(), join(folder, "critic"));
  writeFileSync(join(folder, "trainer.json"), `${JSON.stringify(trainer.state())}\n`);
}

/** Into a trainer of the same networks. */
export function loadControlTrainer(trainer: ControlTrainer, folder: string): void {
  loadOptimizer(trainer.policyOptimizer, trainer.policy.namedParameters(), join(folder, "policy"));
  loadOptimizer(trainer.criticOptimizer, trainer.critic.namedParameters(), join(folder, "critic"));
  trainer.restore(readState(join(folder, "trainer.json")));
}

function readState(path: string): ControlTrainerState {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as ControlTrainerState;
  } catch (cause) {
    throw new RerollError("CHECKPOINT_BROKEN", `${path} cannot be read: ${String(cause)}.`, { path }, { cause });
  }
}
