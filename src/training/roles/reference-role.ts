/** A reference in a worker of its own: log-probs of a frozen model for the rows of a batch. */
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../../models/causal-lm/load-causal-lm.ts";
import { noGrad } from "../../torch/autograd.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import { measureAll, measurePolicy } from "../measure-rows.ts";
import { gatherRows, passesOf, rowsByRank } from "../split-batch.ts";
import type { StrategyBuilder } from "../strategy/strategy.ts";
import { gridOf, type RowTokens } from "../token-rows.ts";
import type { RoleSource } from "./role-source.ts";
import { SleepingModel } from "./sleeping-model.ts";

type ReferenceSource = Pick<
  RoleSource,
  "device" | "dtype" | "training" | "temperature" | "numScores" | "referenceSleeps"
>;

export class ReferenceRole {
  readonly #model: ReturnType<typeof loadReference>;
  readonly #source: ReferenceSource;
  readonly #strategy: StrategyBuilder;

  constructor(folder: string, source: ReferenceSource, strategy: StrategyBuilder) {
    this.#source = source;
    this.#strategy = strategy;
    this.#model = loadReference(folder, source, strategy);
  }

  /** Every rank measures its share; all have those of the others in the end. */
  async measure(rows: readonly RowTokens[]): Promise<Float32Array> {
    const { device, training, temperature, numScores } = this.#source;
    const grid = gridOf(rows);
    const shares = rowsByRank(grid, this.#strategy.numRanks);
    const own = shares[this.#strategy.rank]!;
    const maxTokens = training.maxTokensPerMicrobatch;
    const { parts } = passesOf(this.#strategy, grid, shares, { kind: "measure", maxTokens });
    const settings = { temperature, recompute: false, numScores };
    const measureWith = (model: CausalLm) =>
      measureAll(grid, own, parts, device, (packed) => ({
        logprobs: measurePolicy(model, packed, settings).logprobs_BT,
      })).logprobs;
    const measured = parts.length === 0 ? null : noGrad(() => tensorScope(() => keep(this.#use(measureWith))));
    const columns = [grid.numColumns];
    const everyRow = rows.map((_, row) => row);
    const all_BT = await gatherRows(this.#strategy, shares, everyRow, measured, { columns, device });
    const values = all_BT.toFloat32Array();
    all_BT.dispose();
    return values;
  }

  get model(): CausalLm {
    return this.#model instanceof SleepingModel ? this.#model.model : this.#model;
  }

  dispose(): void {
    this.#model.dispose();
  }

  #use<Result>(measure: (model: CausalLm) => Result): Result {
    return this.#model instanceof SleepingModel ? this.#model.awake(measure) : measure(this.#model);
  }
}

function loadReference(
  folder: string,
  { device, dtype, referenceSleeps }: ReferenceSource,
  { spread, hold, loadDevice }: StrategyBuilder,
) {
  const model = loadCausalLm(folder, { device: loadDevice, dtype, spread }).setTrainable(false);
  hold(model);
  return referenceSleeps ? new SleepingModel(model, device) : model;
}
