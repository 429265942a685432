/**
 * Muon: momentum whose direction is made orthogonal, for the matrices inside a model; AdamW for everything else.
 *
 * An orthogonal update moves all directions of a matrix alike, however small the gradient is along some of them.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../autograd.ts";
import { stack, zerosLike } from "../create.ts";
import type { Parameter } from "../nn/module.ts";
import { keep, tensorScope } from "../scope.ts";
import type { Tensor } from "../tensor.ts";
import { AdamW, type AdamWOptions } from "./adamw.ts";
import { type Update, updatesOf } from "./buckets.ts";
import { expectSetting } from "./expect-setting.ts";
import type { Optimizer, OptimizerState } from "./optimizer.ts";
import { type NamedParameters, type OptimizerGroup, resolveGroups } from "./parameter-group.ts";
import { expectFits, loaded, loadLrs, savedLrs } from "./saved-state.ts";

/** Which parameters Muon takes: matrices that are not looked up by token. */
export function isInnerMatrix(name: string, parameter: Parameter): boolean {
  return parameter.shape.length === 2 && !/embed|lm_head/.test(name);
}

export interface MuonOptions {
  readonly lr: number;
  /** Share of the last direction that is kept. Default 0.95. */
  readonly momentum?: number;
  /** Taken off the matrices, times the learning rate. Default 0. */
  readonly weightDecay?: number;
  /** For the parameters that are not Muon's. */
  readonly adamw?: Omit<AdamWOptions, "lr">;
}

/**
 * b = momentum * b + g; d = g + momentum * b; w = w (1 - lr * weightDecay) - lr * 0.2 sqrt(max(rows, columns)) * orthogonal(d).
 *
 * The factor gives updates about the size of AdamW's, so that both take one learning rate. Keller Jordan et al. 2024;
 * the factor from Moonlight, arXiv:2502.16982.
 */
export class Muon implements Optimizer {
  readonly groups: readonly OptimizerGroup[];
  readonly #matrices: OptimizerGroup;
  readonly #others: AdamW | null;
  readonly #momentum: number;
  readonly #weightDecay: number;
  readonly #velocities = new Map<Parameter, Tensor>();

  constructor(parameters: NamedParameters, { lr, momentum = 0.95, weightDecay = 0, adamw = {} }: MuonOptions) {
    expectSetting("lr", lr, 0);
    expectSetting("momentum", momentum, 0, 1);
    expectSetting("weightDecay", weightDecay, 0);
    const inner = new Map([...parameters].filter(([name, parameter]) => isInnerMatrix(name, parameter)));
    const others = new Map([...parameters].filter(([name]) => !inner.has(name)));
    if (inner.size === 0) {
      throw new RerollError("INVALID_ARGUMENT", "Muon got no matrix inside of the model. Use AdamW.");
    }
    this.#matrices = resolveGroups(inner, { lr })[0]!;
    this.#others = others.size === 0 ? null : new AdamW(others, { weightDecay: 0, ...adamw, lr });
    this.groups = [this.#matrices, ...(this.#others?.groups ?? [])];
    this.#momentum = momentum;
    this.#weightDecay = weightDecay;
  }

  step(): void {
    noGrad(() =>
      tensorScope(() => {
        const updates = updatesOf(this.#matrices.parameters.values(), (parameter) => this.#velocityOf(parameter));
        for (const bucket of byShape(updates)) tensorScope(() => this.#updateBucket(bucket));
      }),
    );
    this.#others?.step();
  }

  zeroGrad(): void {
    for (const parameter of this.#matrices.parameters.values()) parameter.grad = null;
    this.#others?.zeroGrad();
  }

  /** One kind for matrices: velocity. The others are AdamW's. */
  stateDict(): OptimizerState {
    const rest = this.#others?.stateDict() ?? { tensors: new Map<string, Tensor>(), numbers: {} };
    const tensors = new Map(rest.tensors);
    for (const [name, parameter] of this.#matrices.parameters) {
      const velocity = this.#velocities.get(parameter);
      if (velocity !== undefined) tensors.set(`velocity.${name}`, velocity.detach());
    }
    return { tensors, numbers: { ...rest.numbers, ...savedLrs(this.groups) } };
  }

  loadStateDict(saved: OptimizerState): void {
    const isOwn = (key: string) => key.startsWith("velocity.");
    const own = new Map([...saved.tensors].filter(([key]) => isOwn(key)));
    const lrs = Object.fromEntries(Object.entries(saved.numbers).filter(([key]) => key.startsWith("lr.")));
    expectFits({ tensors: own, numbers: lrs }, this.groups, { tensors: ["velocity"], numbers: [] });
    this.#others?.loadStateDict(othersOf(saved, isOwn));
    for (const velocity of this.#velocities.values()) velocity.dispose();
    this.#velocities.clear();
    noGrad(() =>
      tensorScope(() => {
        for (const [name, parameter] of this.#matrices.parameters) {
          const key = `velocity.${name}`;
          if (own.has(key)) this.#velocities.set(parameter, loaded(own, key, parameter));
        }
      }),
    );
    loadLrs(this.groups, saved);
  }

  dispose(): void {
    for (const velocity of this.#velocities.values()) velocity.dispose();
    this.#velocities.clear();
    this.#others?.dispose();
  }

  #velocityOf(parameter: Parameter): Tensor {
    const known = this.#velocities.get(parameter);
    if (known !== undefined) return known;
    const fresh = keep(zerosLike(parameter));
    this.#velocities.set(parameter, fresh);
    return fresh;
  }

  #updateBucket(bucket: readonly Update<Tensor>[]): void {
    const { lr } = this.#matrices;
    const directions = bucket.map(({ gradient, state: velocity }) => {
      velocity.mul_(this.#momentum).add_(gradient);
      return gradient.add(velocity.mul(this.#momentum));
    });
    const orthogonal = orthogonalise(stack(directions));
    const [rows, columns] = bucket[0]!.parameter.shape;
    const size = lr * 0.2 * Math.sqrt(Math.max(rows!, columns!));
    for (const [i, { parameter }] of bucket.entries()) {
      if (this.#weightDecay > 0) parameter.mul_(1 - lr * this.#weightDecay);
      parameter.sub_(orthogonal.select(0, i).to(parameter.dtype).mul(size));
    }
  }
}

/** Coefficients of the quintic iteration: large at zero, so that small singular values grow fast. */
const [A, B, C] = [3.4445, -4.775, 2.0315];

/** The nearest matrices whose singular values are all about 1 (within 0.7 to 1.2), by five Newton-Schulz steps. */
export function orthogonalise(matrices_NDD: Tensor): Tensor {
  const isTall = matrices_NDD.size(1) > matrices_NDD.size(2);
  let x = isTall ? matrices_NDD.transpose(1, 2) : matrices_NDD;
  x = x.div(x.square().sum([1, 2], true).sqrt().add(1e-7));
  for (let i = 0; i < 5; i++) {
    const gram = x.matmul(x.transpose(1, 2));
    x = x.mul(A).add(gram.mul(B).add(gram.matmul(gram).mul(C)).matmul(x));
  }
  return isTall ? x.transpose(1, 2) : x;
}

function byShape(updates: readonly Update<Tensor>[]): Update<Tensor>[][] {
  const buckets = new Map<string, Update<Tensor>[]>();
  for (const update of updates) {
    const key = `${update.parameter.device} ${update.parameter.dtype} ${update.parameter.shape.join(" ")}`;
    buckets.set(key, [...(buckets.get(key) ?? []), update]);
  }
  return [...buckets.values()];
}

/** AdamW's part of a state: its groups come behind the one of the matrices. */
function othersOf({ tensors, numbers }: OptimizerState, isOwn: (key: string) => boolean): OptimizerState {
  const moved = Object.entries(numbers).flatMap(([key, value]): [string, number][] => {
    if (!key.startsWith("lr.")) return [[key, value]];
    const index = Number(key.slice(3)) - 1;
    return index < 0 ? [] : [[`lr.${index}`, value]];
  });
  return { tensors: new Map([...tensors].filter(([key]) => !isOwn(key))), numbers: Object.fromEntries(moved) };
}
