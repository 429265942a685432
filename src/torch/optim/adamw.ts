/**
 * AdamW: Adam with weight decay apart from the gradient. Numbers equal PyTorch's.
 */
import { noGrad } from "../autograd.ts";
import type { Device } from "../dtype.ts";
import { adamwKernel_, type CodedMoment, codedAdamwKernel_ } from "../kernels/adamw-kernel.ts";
import { hasKernels } from "../kernels/cuda-kernel.ts";
import { bytesIn } from "../memory.ts";
import type { Parameter } from "../nn/module.ts";
import { op } from "../operator.ts";
import { keep, tensorScope } from "../scope.ts";
import type { Tensor } from "../tensor.ts";
import { type AdamWSettings, adamwUpdate } from "./adamw-update.ts";
import { bucketsOf, scaledUpdates, type Update, updatesOf } from "./buckets.ts";
import { copyAll } from "./copy-all.ts";
import { BLOCK } from "./dynamic-codes.ts";
import { expectSetting } from "./expect-setting.ts";
import { createMoment, type Moment, type MomentFormat } from "./moment.ts";
import type { Optimizer, OptimizerState } from "./optimizer.ts";
import { type OptimizerGroup, type ParameterGroups, resolveGroups } from "./parameter-group.ts";
import { expectFits, loadLrs, savedLrs, savedPart } from "./saved-state.ts";

/** `lr` must be given; the others default to PyTorch's: betas 0.9 and 0.999, eps 1e-8, weightDecay 0.01. */
export interface AdamWOptions extends Partial<Omit<AdamWSettings, "lr">> {
  readonly lr: number;
  /**
   * Keep a float32 copy of every 16-bit parameter and update that: at small learning rates an update is below the
   * rounding of bfloat16 and would be lost. The copy and the moments take 12 bytes per parameter, where 16-bit moments
   * take 4. The copy is made at a parameter's first step, so load weights before. Default false.
   */
  readonly masterWeights?: boolean;
  /**
   * How the two moments are kept. "bfloat16" takes 4 bytes per parameter for both, "8-bit" 2, where float32 takes 8; tensors of up to
   * 4,096 elements keep theirs in full. Default "full".
   */
  readonly moments?: MomentFormat;
}

/** @example new AdamW(decayMatrices(model.namedParameters(), 0.1), { lr: 1e-6, masterWeights: true }) */
export class AdamW implements Optimizer {
  readonly groups: readonly (AdamWSettings & OptimizerGroup)[];
  readonly #masterWeights: boolean;
  readonly #moments: MomentFormat;
  readonly #states = new Map<Parameter, AdamWState>();

  constructor(
    groups: ParameterGroups<AdamWSettings>,
    { masterWeights = false, moments = "full", ...settings }: AdamWOptions,
  ) {
    this.#masterWeights = masterWeights;
    this.#moments = moments;
    this.groups = resolveGroups(groups, { betas: [0.9, 0.999], eps: 1e-8, weightDecay: 0.01, ...settings });
    for (const group of this.groups) expectValid(group);
  }

  step(factor: Tensor | null = null): void {
    for (const group of this.groups) {
      const stepGroup = () => {
        const updates = updatesOf(group.parameters.values(), (parameter) => this.#stateOf(parameter));
        const others = updates.filter((update) => !updateAlone(update, factor, group));
        for (const bucket of bucketsOf(others, (state) => state.step))
          updateBucket(scaledUpdates(bucket, factor), group);
      };
      noGrad(() => tensorScope(stepGroup));
    }
  }

  zeroGrad(): void {
    for (const group of this.groups) for (const parameter of group.parameters.values()) parameter.grad = null;
  }

  /** Kinds: firstMoment, secondMoment, each with its Scale where it is coded, master; and step. A parameter that was never updated has none. */
  stateDict(): OptimizerState {
    const tensors = new Map<string, Tensor>();
    const numbers = savedLrs(this.groups);
    for (const [name, parameter] of this.#named()) {
      const state = this.#states.get(parameter);
      if (state === undefined) continue;
      numbers[`step.${name}`] = state.step;
      for (const kind of MOMENTS) {
        for (const [part, tensor] of state[kind].parts) tensors.set(`${kind}${part}.${name}`, tensor.detach());
      }
      if (state.master !== null) tensors.set(`master.${name}`, state.master.detach());
    }
    return { tensors, numbers };
  }

  /** A state without masters loads with `masterWeights` on: they are then taken from the parameters. */
  loadStateDict(saved: OptimizerState): void {
    const masters = this.#masterWeights ? ["master"] : [];
    const scales = this.#moments === "8-bit" ? MOMENTS.map((kind) => `${kind}Scale`) : [];
    expectFits(saved, this.groups, { tensors: [...MOMENTS, ...masters], unshaped: scales, numbers: ["step"] });
    const states = noGrad(() => tensorScope(() => this.#loadStates(saved)));
    this.dispose();
    for (const [parameter, state] of states) this.#states.set(parameter, state);
    loadLrs(this.groups, saved);
  }

  /** Bytes of the state. */
  get stateBytes(): number {
    return bytesIn([...this.#states.values()].flatMap(tensorsOf));
  }

  /** Moves the state to a device. The next step needs it where the parameters are, which are moved by whoever has them. */
  moveState(device: Device): void {
    for (const one of [...this.#states.values()].flatMap(tensorsOf)) moveTensor(one, device);
  }

  dispose(): void {
    for (const { firstMoment, secondMoment, master } of this.#states.values()) {
      for (const one of [firstMoment, secondMoment, master]) one?.dispose();
    }
    this.#states.clear();
  }

  #stateOf(parameter: Parameter): AdamWState {
    let state = this.#states.get(parameter);
    if (state === undefined) {
      const master = this.#masterOf(parameter);
      state = { step: 0, ...this.#momentsOf(master ?? parameter), master };
      this.#states.set(parameter, state);
    }
    return state;
  }

  #momentsOf(weight: Tensor): Pick<AdamWState, "firstMoment" | "secondMoment"> {
    return {
      firstMoment: createMoment(weight, this.#moments, "signed"),
      secondMoment: createMoment(weight, this.#moments, "unsigned"),
    };
  }

  #masterOf(parameter: Parameter): Tensor | null {
    const is16Bit = parameter.dtype === "bfloat16" || parameter.dtype === "float16";
    return this.#masterWeights && is16Bit ? keep(parameter.to("float32")) : null;
  }

  #loadStates({ tensors, numbers }: OptimizerState): Map<Parameter, AdamWState> {
    const states = new Map<Parameter, AdamWState>();
    for (const [name, parameter] of this.#named()) {
      const step = numbers[`step.${name}`];
      if (step === undefined) continue;
      const master = this.#masterOf(parameter);
      const savedMaster = tensors.get(`master.${name}`);
      if (master !== null && savedMaster !== undefined) master.copy_(savedMaster);
      const moments = this.#momentsOf(master ?? parameter);
      for (const kind of MOMENTS) {
        for (const [part, own] of moments[kind].parts) own.copy_(savedPart(tensors, `${kind}${part}.${name}`, own));
      }
      states.set(parameter, { step, ...moments, master });
    }
    return states;
  }

  #named(): [string, Parameter][] {
    return this.groups.flatMap((group) => [...group.parameters]);
  }
}

const setData = op("aten::set_data");

function tensorsOf({ firstMoment, secondMoment, master }: AdamWState): readonly Tensor[] {
  return [...firstMoment.parts.values(), ...secondMoment.parts.values(), ...(master === null ? [] : [master])];
}

/** Moves the values of a tensor, keeping its identity. */
function moveTensor(one: Tensor, device: Device): void {
  noGrad(() => tensorScope(() => setData(one, one.toDevice(device))));
}

const MOMENTS = ["firstMoment", "secondMoment"] as const;

interface AdamWState {
  step: number;
  readonly firstMoment: Moment;
  readonly secondMoment: Moment;
  /** The float32 weight of a 16-bit parameter, or null where the parameter itself is updated. */
  readonly master: Tensor | null;
}

/**
 * Tensors of at least this many elements have a kernel of their own, which reads and writes each of them once. Smaller ones go through libtorch together: a launch
 * takes longer than they do.
 */
const MIN_ALONE = 2 ** 20;

/** The update in one kernel, where there is one for it; else false, and nothing was done. */
function updateAlone(update: Update<AdamWState>, factor: Tensor | null, settings: AdamWSettings): boolean {
  const { parameter, gradient, state } = update;
  const { numel } = parameter;
  if (numel < MIN_ALONE || numel % BLOCK !== 0 || !hasKernels(parameter)) return false;
  const { master } = state;
  const moments = [state.firstMoment, state.secondMoment].map(({ parts }) => ({
    codes: parts.get("")!,
    scales: parts.get("Scale") ?? null,
  })) as [MomentParts, MomentParts];
  const tensors = [parameter, gradient, master ?? parameter, moments[0].codes];
  const isHere = tensors.every((one) => one.isContiguous && one.device === parameter.device);
  if (!isHere || gradient.dtype !== parameter.dtype) return false;
  const step = { factor, step: state.step + 1 };
  const weights = { parameter, gradient, master };
  if (isCoded(moments)) codedAdamwKernel_(weights, moments, step, settings);
  else if (moments[0].codes.dtype === (master ?? parameter).dtype)
    adamwKernel_(weights, [moments[0].codes, moments[1].codes], step, settings);
  else return false;
  state.step++;
  return true;
}

interface MomentParts {
  readonly codes: Tensor;
  readonly scales: Tensor | null;
}

function isCoded(moments: readonly [MomentParts, MomentParts]): moments is [CodedMoment, CodedMoment] {
  return moments.every(({ scales }) => scales !== null);
}

function updateBucket(bucket: readonly Update<AdamWState>[], settings: AdamWSettings): void {
  tensorScope(() => {
    const step = bucket[0]!.state.step + 1;
    const weights = bucket.map(({ parameter, state }) => state.master ?? parameter);
    const { dtype } = weights[0]!;
    const gradients = bucket.map(({ gradient }) => gradient.to(dtype));
    const firstMoments = bucket.map(({ state }) => state.firstMoment.read());
    const secondMoments = bucket.map(({ state }) => state.secondMoment.read());
    adamwUpdate({ weights, gradients, firstMoments, secondMoments }, step, settings);
    bucket.forEach(({ state }, i) => {
      state.firstMoment.write(firstMoments[i]!);
      state.secondMoment.write(secondMoments[i]!);
    });
    const mastered = bucket.filter(({ state }) => state.master !== null);
    copyAll(
      mastered.map(({ parameter }) => parameter),
      mastered.map(({ state }) => state.master!),
    );
    for (const { state } of bucket) state.step = step;
  });
}

function expectValid({ lr, betas, eps, weightDecay }: AdamWSettings): void {
  expectSetting("lr", lr, 0);
  for (const beta of betas) expectSetting("betas", beta, 0, 1);
  expectSetting("eps", eps, 0);
  expectSetting("weightDecay", weightDecay, 0);
}
