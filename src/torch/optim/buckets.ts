/**
 * Updates of many tensors at once: parameters of one device, type and count of updates go into one call.
 */
import type { Parameter } from "../nn/module.ts";
import { hasOp, op } from "../operator.ts";
import type { Tensor } from "../tensor.ts";

/** A parameter with its gradient and what the optimizer knows of it. */
export interface Update<State> {
  readonly parameter: Parameter;
  readonly gradient: Tensor;
  readonly state: State;
}

/**
 * Maximum number of elements per call. Bounds the memory of intermediates, which are float32 copies of the gradients
 * where there are master weights: a quarter gigabyte each.
 */
const maxElements = 2 ** 26;

/** The parameters that have a gradient, each with its state. */
export function updatesOf<State>(
  parameters: Iterable<Parameter>,
  stateOf: (parameter: Parameter) => State,
): Update<State>[] {
  const updates: Update<State>[] = [];
  for (const parameter of parameters) {
    const gradient = parameter.grad;
    if (gradient !== null) updates.push({ parameter, gradient, state: stateOf(parameter) });
  }
  return updates;
}

/** Updates of one device and type, and of one further key, in lists of bounded size. */
export function bucketsOf<State>(
  updates: readonly Update<State>[],
  keyOf: (state: State) => string | number,
): Update<State>[][] {
  const buckets: Update<State>[][] = [];
  const open = new Map<string, { readonly bucket: Update<State>[]; elements: number }>();
  for (const update of updates) {
    const { parameter } = update;
    const { numel } = parameter;
    const key = `${parameter.device} ${parameter.dtype} ${keyOf(update.state)}`;
    let current = open.get(key);
    if (current === undefined || current.elements + numel > maxElements) {
      current = { bucket: [], elements: 0 };
      open.set(key, current);
      buckets.push(current.bucket);
    }
    current.bucket.push(update);
    current.elements += numel;
  }
  return buckets;
}

/** The same updates with gradients times the factor, where there is one: of one device and type, as those of a bucket are. */
export function scaledUpdates<State>(
  bucket: readonly Update<State>[],
  factor: Tensor | null,
): readonly Update<State>[] {
  const first = bucket[0]?.gradient;
  if (factor === null || first === undefined) return bucket;
  const gradients = bucket.map(({ gradient }) => gradient);
  const converted = factor.to(first.dtype).toDevice(first.device);
  const scaled = hasOp("aten::_foreach_mul.Tensor")
    ? ops.mul(gradients, converted)
    : gradients.map((gradient) => gradient.mul(converted));
  return bucket.map((update, i) => ({ ...update, gradient: scaled[i]! }));
}

const ops = { mul: op("aten::_foreach_mul.Tensor") } as const;
