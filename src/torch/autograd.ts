/** Gradients: modes, gradients of chosen inputs, and functions with a backward written in TypeScript. */
import { RerollError } from "../errors/reroll-error.ts";
import { native } from "./binding.ts";
import { expectSynchronous } from "./scope.ts";
import { Tensor } from "./tensor.ts";
import { countScope } from "./tensor-handle.ts";

/** Runs `body` without recording gradients. */
export function noGrad<T>(body: () => T): T {
  return withGradEnabled("noGrad", false, body);
}

/** Runs `body` with recording on, also inside noGrad. */
export function enableGrad<T>(body: () => T): T {
  return withGradEnabled("enableGrad", true, body);
}

/** Like noGrad, and cheaper: tensors made here can never take part in a recorded computation. For generation. */
export function inferenceMode<T>(body: () => T): T {
  native.enterInferenceMode();
  try {
    return expectSynchronous("inferenceMode", body());
  } finally {
    native.leaveInferenceMode();
  }
}

export function isGradEnabled(): boolean {
  return native.isGradEnabled();
}

/**
 * The gradients of `outputs` with respect to `inputs`, without touching `grad` of anything. Null where an input was not
 * used. Outputs with more than one element need `gradOutputs`.
 */
export function gradients(
  outputs: readonly Tensor[],
  inputs: readonly Tensor[],
  { gradOutputs, retainGraph = false, createGraph = false }: GradientOptions = {},
): (Tensor | null)[] {
  const handles = native.gradients(
    handlesOf(outputs),
    handlesOf(inputs),
    gradOutputs && handlesOf(gradOutputs),
    retainGraph || createGraph,
    createGraph,
  );
  return handles.map((handle) => (handle === null ? null : new Tensor(handle)));
}

export interface GradientOptions {
  readonly gradOutputs?: readonly Tensor[];
  readonly retainGraph?: boolean;
  /** Record the gradient computation too, for gradients of gradients. */
  readonly createGraph?: boolean;
}

/** Adds gradients to the leaves of several tensors in one pass. A null gradient stands for one, of a single element. */
export function backward(tensors: readonly Tensor[], gradientsOfTensors?: readonly (Tensor | null)[]): void {
  native.backward(
    handlesOf(tensors),
    gradientsOfTensors?.map((g) => g?.handle ?? null),
    false,
    false,
    undefined,
  );
}

/** A function with its own backward. */
export interface CustomFunction {
  /** Runs without recording. What `saved` holds is kept until the backward pass, and owned by the graph. */
  readonly forward: (inputs: readonly Tensor[]) => {
    readonly outputs: readonly Tensor[];
    readonly saved: readonly Tensor[];
  };
  /** One gradient per output (null where nothing depends on it) to one gradient per input (null for none). */
  readonly backward: (gradOutputs: readonly (Tensor | null)[], saved: readonly Tensor[]) => readonly (Tensor | null)[];
}

/**
 * Calls a custom function on inputs and ties its outputs to them. Gradients flow to the inputs, not to tensors that
 * `forward` reaches through its closure. The backward pass must run on the thread that ran this call.
 */
export function applyFunction({ forward, backward: run }: CustomFunction, inputs: readonly Tensor[]): Tensor[] {
  if (!native.isGradEnabled()) return [...forward(inputs).outputs];
  const { outputs, saved } = noGrad(() => forward(inputs));
  const handles = native.customFunction(handlesOf(inputs), handlesOf(outputs), handlesOf(saved), (gradOutputs, kept) =>
    // The addon has entered a scope around this callback and takes the results out before it leaves it.
    countScope(() => {
      const wrapped = gradOutputs.map((handle) => (handle === null ? null : new Tensor(handle)));
      const results = run(
        wrapped,
        kept.map((handle) => new Tensor(handle)),
      );
      return gradientHandles(results, inputs.length);
    }),
  );
  return handles.map((handle) => new Tensor(handle));
}

/** Backward functions are users' code: what they return is checked before its type is believed. */
function gradientHandles(results: unknown, numInputs: number): (number | null)[] {
  expectSynchronous("applyFunction", results);
  const isGradient = (result: unknown): result is Tensor | null => result === null || result instanceof Tensor;
  if (Array.isArray(results) && results.length === numInputs && results.every(isGradient)) {
    return results.map((result) => result?.handle ?? null);
  }
  const got = Array.isArray(results) ? `[${results.map(kindOf).join(", ")}]` : kindOf(results);
  throw new RerollError(
    "INVALID_ARGUMENT",
    `a custom backward must return one gradient (or null) per input: expected ${numInputs}, got ${got}. Return a list of tensors and nulls.`,
  );
}

function kindOf(value: unknown): string {
  if (value instanceof Tensor) return "a tensor";
  return typeof value === "object" && value !== null ? "an object" : String(value);
}

function withGradEnabled<T>(name: string, enabled: boolean, body: () => T): T {
  const previous = native.isGradEnabled();
  native.setGradEnabled(enabled);
  try {
    return expectSynchronous(name, body());
  } finally {
    native.setGradEnabled(previous);
  }
}

function handlesOf(tensors: readonly Tensor[]): number[] {
  return tensors.map((tensor) => tensor.handle);
}
