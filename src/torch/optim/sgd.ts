/** Stochastic gradient descent with momentum. Numbers equal PyTorch's. */
import { RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../autograd.ts";
import type { Parameter } from "../nn/module.ts";
import { op } from "../operator.ts";
import { keep, tensorScope } from "../scope.ts";
import type { Tensor } from "../tensor.ts";
import { bucketsOf, scaledUpdates, type Update, updatesOf } from "./buckets.ts";
import { expectSetting } from "./expect-setting.ts";
import type { Optimizer, OptimizerState } from "./optimizer.ts";
import { type OptimizerGroup, type ParameterGroups, resolveGroups } from "./parameter-group.ts";
import { expectFits, loaded, loadLrs, savedLrs } from "./saved-state.ts";

/** Settings that can differ between groups of parameters. */
interface SGDSettings {
  readonly lr: number;
  /** Share of the previous update that is kept. Default 0. */
  readonly momentum: number;
  /** Look ahead along the momentum. Needs momentum above 0. Default false. */
  readonly isNesterov: boolean;
  /** Added to the gradient, times the weight. Default 0. */
  readonly weightDecay: number;
}

/** `lr` must be given. */
export interface SGDOptions extends Partial<Omit<SGDSettings, "lr">> {
  readonly lr: number;
}

/**
 * d = g + weightDecay * w; b = momentum * b + d, or d at the first update; w = w - lr * b, or, with Nesterov,
 * w = w - lr * (d + momentum * b).
 */
export class SGD implements Optimizer {
  readonly groups: readonly (SGDSettings & OptimizerGroup)[];
  readonly #velocities = new Map<Parameter, Tensor>();

  constructor(groups: ParameterGroups<SGDSettings>, options: SGDOptions) {
    this.groups = resolveGroups(groups, { momentum: 0, isNesterov: false, weightDecay: 0, ...options });
    for (const group of this.groups) expectValid(group);
  }

  step(factor: Tensor | null = null): void {
    for (const group of this.groups) {
      const stepGroup = () => {
        const updates = updatesOf(group.parameters.values(), (parameter) => this.#velocities.get(parameter) ?? null);
        const buckets = bucketsOf(updates, (velocity) => (velocity === null ? "first" : "later"));
        for (const bucket of buckets) this.#updateBucket(scaledUpdates(bucket, factor), group);
      };
      noGrad(() => tensorScope(stepGroup));
    }
  }

  zeroGrad(): void {
    for (const group of this.groups) for (const parameter of group.parameters.values()) parameter.grad = null;
  }

  /** One kind: velocity, where there is momentum. */
  stateDict(): OptimizerState {
    const tensors = new Map<string, Tensor>();
    for (const [name, parameter] of this.#named()) {
      const velocity = this.#velocities.get(parameter);
      if (velocity !== undefined) tensors.set(`velocity.${name}`, velocity.detach());
    }
    return { tensors, numbers: savedLrs(this.groups) };
  }

  loadStateDict(saved: OptimizerState): void {
    expectFits(saved, this.groups, { tensors: ["velocity"], numbers: [] });
    this.dispose();
    const load = () => {
      for (const [name, parameter] of this.#named()) {
        const key = `velocity.${name}`;
        if (saved.tensors.has(key)) this.#velocities.set(parameter, loaded(saved.tensors, key, parameter));
      }
    };
    noGrad(() => tensorScope(load));
    loadLrs(this.groups, saved);
  }

  dispose(): void {
    for (const velocity of this.#velocities.values()) velocity.dispose();
    this.#velocities.clear();
  }

  #updateBucket(bucket: readonly Update<Tensor | null>[], settings: SGDSettings): void {
    const { lr, momentum, isNesterov, weightDecay } = settings;
    tensorScope(() => {
      const weights = bucket.map(({ parameter }) => parameter);
      const gradients = bucket.map(({ gradient }) => gradient);
      const decayed = weightDecay === 0 ? gradients : ops.add(gradients, weights, weightDecay);
      if (momentum === 0) return ops.add_(weights, decayed, -lr);
      const velocities = this.#advance(bucket, decayed, momentum);
      ops.add_(weights, isNesterov ? ops.add(decayed, velocities, momentum) : velocities, -lr);
    });
  }

  /** The velocities after this gradient. Either all velocities of a bucket are new, or none is. */
  #advance(bucket: readonly Update<Tensor | null>[], gradients: readonly Tensor[], momentum: number): Tensor[] {
    const old = bucket.flatMap(({ state }) => state ?? []);
    if (old.length > 0) {
      ops.mulScalar_(old, momentum);
      ops.add_(old, gradients, 1);
      return old;
    }
    const fresh = gradients.map((gradient) => keep(gradient.clone()));
    for (const [i, { parameter }] of bucket.entries()) this.#velocities.set(parameter, fresh[i]!);
    return fresh;
  }

  #named(): [string, Parameter][] {
    return this.groups.flatMap((group) => [...group.parameters]);
  }
}

function expectValid({ lr, momentum, isNesterov, weightDecay }: SGDSettings): void {
  expectSetting("lr", lr, 0);
  expectSetting("momentum", momentum, 0);
  expectSetting("weightDecay", weightDecay, 0);
  if (isNesterov && momentum === 0) {
    throw new RerollError("INVALID_ARGUMENT", "isNesterov needs momentum above 0: got 0. Set momentum, say to 0.9.");
  }
}

const ops = {
  add: op("aten::_foreach_add.List"),
  add_: op("aten::_foreach_add_.List"),
  mulScalar_: op("aten::_foreach_mul_.Scalar"),
} as const;
