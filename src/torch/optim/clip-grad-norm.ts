/** The norm of all gradients taken as one vector, and a bound on it. */
import { RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../autograd.ts";
import { stack, zeros } from "../create.ts";
import type { Parameter } from "../nn/module.ts";
import { hasOp, op } from "../operator.ts";
import { tensorScope } from "../scope.ts";
import type { Tensor } from "../tensor.ts";

/** Options of clipGradNorm. */
export interface ClipGradNormOptions {
  /**
   * Throw if the norm is NaN or infinite, which requires waiting for the device. Default false: as in PyTorch, the
   * gradients then become NaN, and the returned norm shows it.
   */
  readonly errorIfNonFinite?: boolean;
}

/**
 * Scales all gradients by one factor so that their L2 norm is at most `maxNorm`, and returns the norm from before, a
 * tensor without dimensions on the device of the first gradient. Does not wait for the device. `maxNorm` Infinity only
 * measures. Norms are summed in float32, or float64 if a gradient is; the factor is rounded to each gradient's type.
 */
export function clipGradNorm(
  parameters: Iterable<Parameter>,
  maxNorm: number,
  { errorIfNonFinite = false }: ClipGradNormOptions = {},
): Tensor {
  if (!(maxNorm > 0)) throw new RerollError("INVALID_ARGUMENT", `maxNorm must be above 0: got ${maxNorm}.`);
  const clip = () => {
    const buckets = bucketsOf(parameters);
    const norm = globalNorm(buckets);
    if (errorIfNonFinite) expectFinite(norm);
    if (maxNorm !== Number.POSITIVE_INFINITY) {
      const factor = factorOf(norm, maxNorm);
      for (const bucket of buckets) scale(bucket, factor);
    }
    return norm;
  };
  return noGrad(() => tensorScope(clip));
}

/** The norm of gradients, and what they are still to be multiplied with for it to stay within bounds: one element in float32; null for nothing. */
export interface GradientBound {
  readonly norm: Tensor;
  readonly factor: Tensor | null;
}

/**
 * As clipGradNorm, but on a GPU gradients stay as they are: `Optimizer.step` takes the factor, which saves reading and writing them once more. Elsewhere they
 * are scaled at once, and no factor is left.
 */
export function boundGradNorm(parameters: Iterable<Parameter>, maxNorm: number): GradientBound {
  const all = [...parameters];
  const isOnGpu = all.every(
    ({ grad, device, dtype }) => grad === null || (device.startsWith("cuda") && dtype !== "float64"),
  );
  if (!isOnGpu || maxNorm === Number.POSITIVE_INFINITY) return { norm: clipGradNorm(all, maxNorm), factor: null };
  const norm = clipGradNorm(all, Number.POSITIVE_INFINITY);
  return noGrad(() => tensorScope(() => ({ norm, factor: factorOf(norm, maxNorm) })));
}

/** The small term is PyTorch's: it keeps the factor finite when all gradients are zero. */
function factorOf(norm: Tensor, maxNorm: number): Tensor {
  return norm.add(1e-6).reciprocal().mul(maxNorm).clamp(null, 1);
}

/** Gradients of one device and type: what one operator call takes. */
function bucketsOf(parameters: Iterable<Parameter>): Tensor[][] {
  const buckets = new Map<string, Tensor[]>();
  for (const parameter of new Set(parameters)) {
    const gradient = parameter.grad;
    if (gradient === null) continue;
    const key = `${gradient.device} ${gradient.dtype}`;
    const bucket = buckets.get(key);
    if (bucket === undefined) buckets.set(key, [gradient]);
    else bucket.push(gradient);
  }
  return [...buckets.values()];
}

function globalNorm(buckets: readonly (readonly Tensor[])[]): Tensor {
  const first = buckets[0]?.[0];
  if (first === undefined) return zeros([]);
  const isDouble = buckets.some((bucket) => bucket[0]!.dtype === "float64");
  const norms = buckets.map((bucket) => {
    const norm = stack(normsOf(bucket)).norm();
    return norm.to(isDouble ? "float64" : "float32").toDevice(first.device);
  });
  return norms.length === 1 ? norms[0]! : stack(norms).norm();
}

function normsOf(bucket: readonly Tensor[]): Tensor[] {
  const { dtype } = bucket[0]!;
  if (dtype === "float32" || dtype === "float64") return ops.norms(bucket, 2);
  // This operator is younger than the type argument of the foreach norm, which has no name of its own to ask for.
  if (hasOp("aten::_foreach_powsum.Scalar")) return ops.norms(bucket, 2, "float32");
  return bucket.map((gradient) => ops.norm(gradient, 2, null, false, "float32"));
}

function scale(bucket: readonly Tensor[], factor: Tensor): void {
  const first = bucket[0]!;
  const converted = factor.to(first.dtype).toDevice(first.device);
  if (hasOp("aten::_foreach_mul_.Tensor")) ops.mul_(bucket, converted);
  else for (const gradient of bucket) gradient.mul_(converted);
}

function expectFinite(norm: Tensor): void {
  const value = norm.item();
  if (Number.isFinite(value)) return;
  throw new RerollError(
    "NON_FINITE_GRADIENT",
    `The norm of the gradients is ${value}. Gradients must be finite: look for a division by zero or a logarithm of ` +
      "zero in the loss, or lower the learning rate. The gradients were left as they are.",
    { norm: value },
  );
}

const ops = {
  norm: op("aten::linalg_vector_norm"),
  norms: op("aten::_foreach_norm.Scalar"),
  mul_: op("aten::_foreach_mul_.Tensor"),
} as const;
