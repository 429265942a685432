/**
 * A frozen model whose weights are in host memory except while it is used, so that a device it shares has room for others. They are moved, tensor by
 * tensor: none is in both places for longer than its copy takes.
 */
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";

export class SleepingModel {
  readonly model: CausalLm;
  readonly #device: string;

  /** Puts it to sleep. */
  constructor(model: CausalLm, device: string) {
    this.model = model.to({ device: "cpu" });
    this.#device = device;
  }

  /** Uses the model on its device. What `use` gives must not wait. */
  awake<Result>(use: (model: CausalLm) => Result): Result {
    try {
      return use(this.model.to({ device: this.#device }));
    } finally {
      this.model.to({ device: "cpu" });
    }
  }

  dispose(): void {
    this.model.dispose();
  }
}
