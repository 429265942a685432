/** The memory of an engine's own weights, for new ones that are written there as they come. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { isInFp8, isQuantized } from "../../models/causal-lm/quantize-model.ts";
import { namedWeights } from "../../models/causal-lm/weight-names.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { WeightFacts } from "./engine-host.ts";

export class WeightPlaces {
  readonly #model: CausalLm;
  /** Weights that have not come yet, of the version that comes in parts. */
  #missing: Set<string>;

  constructor(model: CausalLm) {
    this.#model = model;
    this.#missing = this.#names();
  }

  /** Memory for weights like these, all or some, which the caller disposes of; null where the model has other ones. */
  begin(facts: readonly WeightFacts[]): ReadonlyMap<string, Tensor> | null {
    if (isQuantized(this.#model) || isInFp8(this.#model)) return null;
    const own = new Map(
      this.#weights().map(({ name, parameter, viewOf }) => [name, keep(tensorScope(() => viewOf(parameter.detach())))]),
    );
    const isOwn = ({ name, dtype, shape }: WeightFacts) => {
      const place = own.get(name);
      return place !== undefined && place.dtype === dtype && `${place.shape}` === `${shape}`;
    };
    const isTaken = facts.every(isOwn);
    const wanted = new Set(isTaken ? facts.map(({ name }) => name) : []);
    for (const [name, place] of own) if (!wanted.has(name)) place.dispose();
    for (const name of wanted) this.#missing.delete(name);
    return isTaken ? new Map(facts.map(({ name }) => [name, own.get(name)!])) : null;
  }

  /** Expects that all weights of this version have come. */
  end(version: number): void {
    const [missing] = this.#missing;
    if (missing !== undefined)
      throw new RerollError(
        "WEIGHTS_MISMATCH",
        `Version ${version} came without ${missing}, which the engine's model has.`,
      );
    this.#missing = this.#names();
  }

  #weights() {
    return namedWeights(this.#model).filter(({ isElsewhere = false }) => !isElsewhere);
  }

  #names(): Set<string> {
    return new Set(this.#weights().map(({ name }) => name));
  }
}
