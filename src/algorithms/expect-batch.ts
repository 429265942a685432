/**
 * The checks at the public edge of the algorithms: shapes, types, places, group lists and finite values.
 *
 * Functions inside trust their tensors. A message names the argument that is wrong and the one it was compared with.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { isFloating } from "../torch/dtype.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";

/** Tensors by the name the caller typed, as in `{ rewards_BT, values_BT }`. */
export type NamedTensors = Readonly<Record<string, Tensor>>;

/**
 * Throws unless the mask is bool [B, T] with at least one row and token, and the others are floats on its device: [B,
 * T] like the mask, or one entry per row for those in `floats_B`.
 */
export function expectBatch(lossMask_BT: Tensor, floats_BT: NamedTensors = {}, floats_B: NamedTensors = {}): void {
  expectMask({ lossMask_BT });
  const shape = lossMask_BT.shape;
  if (shape.length !== 2 || shape.includes(0)) {
    throw new RerollError(
      "SHAPE_MISMATCH",
      `lossMask_BT must be [B, T] with at least one row and one token: got ${show(shape)}.`,
      { lossMask_BT: shape },
    );
  }
  for (const [name, values] of Object.entries(floats_BT)) {
    expectSame(name, values, "lossMask_BT", shape, "Both must be [B, T] over the same response tokens.");
    expectFloat(name, values, lossMask_BT);
  }
  for (const [name, values] of Object.entries(floats_B)) {
    expectFloat(name, values, lossMask_BT);
    if (values.shape.length === 1 && values.shape[0] === shape[0]) continue;
    throw new RerollError(
      "SHAPE_MISMATCH",
      `${name} has shape ${show(values.shape)} but lossMask_BT has ${shape[0]} rows. There must be one entry per row.`,
      { [name]: values.shape, lossMask_BT: shape },
    );
  }
}

/**
 * Throws unless every tensor is a float [B] with one entry per row, at least one, on the device of the first tensor.
 */
export function expectRows(floats_B: NamedTensors): void {
  const [first, ...others] = Object.entries(floats_B);
  if (first === undefined) return;
  const [firstName, firstValues] = first;
  const shape = firstValues.shape;
  if (shape.length !== 1 || shape[0] === 0) {
    throw new RerollError("SHAPE_MISMATCH", `${firstName} must be [B] with at least one row: got ${show(shape)}.`, {
      [firstName]: shape,
    });
  }
  expectFloat(firstName, firstValues, firstValues);
  for (const [name, values] of others) {
    expectSame(name, values, firstName, shape, "Both must be [B], one entry per row.");
    expectFloat(name, values, firstValues);
  }
}

/** Throws unless all tensors have the same shape, type and device, and at least one element. */
export function expectAlike(floats: NamedTensors): void {
  const [first, ...others] = Object.entries(floats);
  if (first === undefined) return;
  const [firstName, firstValues] = first;
  expectFloat(firstName, firstValues, firstValues);
  if (firstValues.numel === 0) {
    throw new RerollError("SHAPE_MISMATCH", `${firstName} is empty: got shape ${show(firstValues.shape)}.`);
  }
  for (const [name, values] of others) {
    expectSame(name, values, firstName, firstValues.shape, "Both must have one shape.");
    expectFloat(name, values, firstValues);
  }
}

/** Throws unless all tensors are bool. */
export function expectMask(masks: NamedTensors): void {
  for (const [name, mask] of Object.entries(masks)) {
    if (mask.dtype === "bool") continue;
    throw new RerollError(
      "DTYPE_MISMATCH",
      `${name} must be a bool tensor: got ${mask.dtype}. Use ${name}.ne(0) where it holds zeros and ones.`,
      { [name]: mask.dtype },
    );
  }
}

/** Throws unless there is one whole number per row. Any numbers in any order will do; equal numbers make one group. */
export function expectGroups(name: string, groupOf: readonly number[], numRows: number): void {
  if (groupOf.length !== numRows) {
    throw new RerollError(
      "SHAPE_MISMATCH",
      `${name} has ${groupOf.length} entries for ${numRows} rows. It must name the group of every row.`,
      { [name]: groupOf.length, numRows },
    );
  }
  const wrong = groupOf.findIndex((group) => !Number.isSafeInteger(group));
  if (wrong === -1) return;
  throw new RerollError("INVALID_ARGUMENT", `${name}[${wrong}] must be a whole number: got ${groupOf[wrong]}.`, {
    row: wrong,
    group: groupOf[wrong],
  });
}

/** Throws for NaN and infinities. Reads one value back from the device, so it belongs at the edge of a step. */
export function expectFinite(tensors: NamedTensors): void {
  for (const [name, values] of Object.entries(tensors)) {
    if (tensorScope(() => values.isFinite().all().item()) !== 0) continue;
    const { count, position } = tensorScope(() => {
      const places = values.isFinite().logicalNot().nonzero();
      return { count: places.size(0), position: places.select(0, 0).toArray() };
    });
    throw new RerollError(
      "NON_FINITE",
      `${name} must be finite: ${count} of its values are NaN or infinite, the first at ${show(position)}. A value ` +
        "that could not be computed ends its trajectory as failed; it is not passed on as a number.",
      { name, count, position },
    );
  }
}

/** Throws unless a number is in [low, high]. NaN never is. */
export function expectRange(name: string, value: number, low: number, high = Number.POSITIVE_INFINITY): void {
  if (value >= low && value <= high) return;
  const allowed = high === Number.POSITIVE_INFINITY ? `at least ${low}` : `in [${low}, ${high}]`;
  throw new RerollError("INVALID_ARGUMENT", `${name} must be ${allowed}: got ${value}.`, { [name]: value });
}

/** Throws unless a number is finite and above 0. */
export function expectPositive(name: string, value: number): void {
  if (value > 0 && value < Number.POSITIVE_INFINITY) return;
  throw new RerollError("INVALID_ARGUMENT", `${name} must be a finite number above 0: got ${value}.`, {
    [name]: value,
  });
}

function expectSame(name: string, values: Tensor, other: string, shape: readonly number[], rule: string): void {
  const got = values.shape;
  if (got.length === shape.length && got.every((size, i) => size === shape[i])) return;
  throw new RerollError("SHAPE_MISMATCH", `${name} has shape ${show(got)} but ${other} has ${show(shape)}. ${rule}`, {
    [name]: got,
    [other]: shape,
  });
}

function expectFloat(name: string, values: Tensor, like: Tensor): void {
  if (!isFloating(values.dtype)) {
    throw new RerollError("DTYPE_MISMATCH", `${name} must hold float32 or float64: got ${values.dtype}.`, {
      [name]: values.dtype,
    });
  }
  if (values.device === like.device) return;
  throw new RerollError(
    "DEVICE_MISMATCH",
    `${name} is on ${values.device} but its mask or neighbors are on ${like.device}. Move them to one device.`,
    { [name]: values.device, other: like.device },
  );
}

function show(shape: readonly number[]): string {
  return `[${shape.join(", ")}]`;
}
