/** The roles of one worker apart from the trainer: a reference, a critic, or both on the same device. */
import { join } from "node:path";
import { buildRecipe } from "../../algorithms/recipes/table.ts";
import type { Metrics } from "../../flow/metrics.ts";
import type { WorkerMemory } from "../../flow/worker-facts.ts";
import { toDisk } from "../../models/formats/file-sink.ts";
import { devicePeakBytes } from "../../torch/memory.ts";
import { AdamW } from "../../torch/optim/adamw.ts";
import type { StrategyBuilder } from "../strategy/strategy.ts";
import type { RowTokens } from "../token-rows.ts";
import type { TrainedCritic } from "../token-trainer.ts";
import { loadCritic, saveCritic } from "../trainer-checkpoint.ts";
import { buildCritic, joinStrategy } from "../trainer-source.ts";
import { CriticRole } from "./critic-role.ts";
import { heldBytes } from "./held-bytes.ts";
import type { CriticLearning, GridValues, ValueTargets } from "./other-roles.ts";
import { ReferenceRole } from "./reference-role.ts";
import type { RoleSource } from "./role-source.ts";

/** As its owner calls it. Calls must not overlap. */
export interface Roles extends CriticLearning {
  measureReference(rows: readonly RowTokens[]): Promise<Float32Array>;
  /** Begins a step of the critic. */
  measureValues(rows: readonly RowTokens[]): Promise<GridValues>;
  /** Writes the critic's state beside that of the policy. */
  saveState(folder: string): Promise<void>;
  loadState(folder: string): Promise<void>;
  /** What each worker holds, in their order. */
  memory(): Promise<readonly WorkerMemory[]>;
  close(): Promise<void>;
}

interface RoleParts {
  readonly reference: ReferenceRole | null;
  readonly critic: TrainedCritic | null;
  readonly learning: CriticRole | null;
  readonly strategy: StrategyBuilder;
}

export class RoleHost implements Roles {
  readonly #parts: RoleParts;
  readonly #source: RoleSource;

  private constructor(parts: RoleParts, source: RoleSource) {
    this.#parts = parts;
    this.#source = source;
    this.#rest();
  }

  static async create(source: RoleSource): Promise<RoleHost> {
    const strategy = await joinStrategy(source);
    const reference = source.reference === null ? null : new ReferenceRole(source.reference, source, strategy);
    const critic = source.critic && (await buildCritic(source.critic, strategy, source.dtype));
    const learning = critic && new CriticRole(critic, buildRecipe(source.algorithm), strategy, source);
    return new RoleHost({ reference, critic, learning, strategy }, source);
  }

  measureReference(rows: readonly RowTokens[]): Promise<Float32Array> {
    return this.#parts.reference!.measure(rows);
  }

  measureValues(rows: readonly RowTokens[]): Promise<GridValues> {
    if (this.#source.criticSleeps) moveCritic(this.#parts.critic!, this.#source.device);
    return this.#parts.learning!.measure(rows);
  }

  teach(targets: ValueTargets): Promise<void> {
    return this.#parts.learning!.teach(targets);
  }

  update(rows: readonly number[]): Promise<boolean> {
    return this.#parts.learning!.update(rows);
  }

  apply(outcome: "made" | "skipped", factor: number): Promise<void> {
    return this.#parts.learning!.apply(outcome, factor);
  }

  async report(): Promise<Metrics> {
    const metrics = await this.#parts.learning!.report();
    this.#rest();
    return metrics;
  }

  async saveState(folder: string): Promise<void> {
    const { critic, strategy } = this.#parts;
    if (critic !== null) await saveCritic(strategy, critic, join(folder, "critic"), toDisk);
  }

  async loadState(folder: string): Promise<void> {
    const { critic, strategy } = this.#parts;
    if (critic === null) return;
    if (this.#source.criticSleeps) moveCritic(critic, this.#source.device);
    loadCritic(strategy, critic, join(folder, "critic"));
    this.#rest();
  }

  async memory(): Promise<readonly WorkerMemory[]> {
    const { reference, critic } = this.#parts;
    const { device, referenceSleeps, criticSleeps } = this.#source;
    const roles = [
      ...(reference === null
        ? []
        : [heldBytes("reference", { modules: [reference.model], isAsleep: referenceSleeps })]),
      ...(critic === null
        ? []
        : [
            heldBytes("critic", {
              modules: [critic.model, critic.head],
              optimizer: critic.optimizer,
              isAsleep: criticSleeps,
            }),
          ]),
    ];
    return [{ roles, peakBytes: devicePeakBytes(device) }];
  }

  async close(): Promise<void> {
    const { reference, critic } = this.#parts;
    reference?.dispose();
    for (const one of critic === null ? [] : [critic.model, critic.head, critic.optimizer]) one.dispose();
  }

  /** Between steps. */
  #rest(): void {
    if (this.#source.criticSleeps && this.#parts.critic !== null) moveCritic(this.#parts.critic, "cpu");
  }
}

/** Moves all that a critic has: weights, head and the state of its optimizer. */
export function moveCritic({ model, head, optimizer }: TrainedCritic, device: string): void {
  model.to({ device });
  head.to({ device });
  if (optimizer instanceof AdamW) optimizer.moveState(device);
}
