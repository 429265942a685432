/**
 * Tensor: what models and algorithms are written with.
 *
 * A method is the libtorch operator of its name; a trailing underscore changes the tensor in place. Operators without a
 * method are reached through `op`. Shapes are checked by the operators; who frees a tensor is in scope.ts.
 */
import { native } from "./binding.ts";
import { arrayFor, type Device, type DType, type TensorData } from "./dtype.ts";
import type { Scalar } from "./generated/operators.ts";
import { setTensorClass } from "./operator.ts";
import { tensorScope } from "./scope.ts";
import { TensorHandle } from "./tensor-handle.ts";
import { ops } from "./tensor-operators.ts";

type Operand = Tensor | Scalar;

export class Tensor extends TensorHandle {
  // What it is.
  get shape(): number[] {
    return native.shape(this.handle);
  }
  get strides(): number[] {
    return native.strides(this.handle);
  }
  get dtype(): DType {
    return native.dtype(this.handle);
  }
  get device(): Device {
    return native.device(this.handle);
  }
  get numel(): number {
    return native.numel(this.handle);
  }
  /** The size of one dimension; negative counts from the end. */
  size(dim: number): number {
    return ops.size(this, dim);
  }
  /** Equal for tensors that share memory. */
  get storageAddress(): number {
    return native.storageAddress(this.handle);
  }
  get isContiguous(): boolean {
    return native.isContiguous(this.handle);
  }
  /** Whether its first element stands at a multiple of so many bytes: one that is part of another need not. */
  isAligned(bytes: number): boolean {
    return native.isAligned(this.handle, bytes);
  }

  // Its values.
  /** The value of a tensor with one element. Waits for the device. */
  item(): number {
    return native.item(this.handle);
  }
  /** A copy of the values as they are stored; 16-bit floats as their bits. */
  toTypedArray(): TensorData {
    const target = arrayFor(this.dtype, this.numel);
    native.readInto(this.handle, target);
    return target;
  }
  /** A copy of the values as float32, whatever the type. */
  toFloat32Array(): Float32Array {
    const target = new Float32Array(this.numel);
    tensorScope(() => native.readInto(this.detach().to("float32").handle, target));
    return target;
  }
  /** A copy of the values as plain numbers, flat. Integers past 2^53 lose precision: see toTypedArray. */
  toArray(): number[] {
    return Array.from(this.#toTypedArrayOfNumbers());
  }
  /** Overwrites an array of the same type and size with the values, as they are stored: for what is read again and again. */
  readInto(target: TensorData): void {
    native.readInto(this.handle, target);
  }
  /** Overwrites the values of a contiguous CPU tensor with an array of the same type and size. */
  writeFrom(source: TensorData): this {
    native.writeFrom(this.handle, source);
    return this;
  }
  override toString(): string {
    return this.isDisposed ? "Tensor(disposed)" : `Tensor(${native.describe(this.handle)})`;
  }
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }

  // Gradients.
  get requiresGrad(): boolean {
    return native.requiresGrad(this.handle);
  }
  set requiresGrad(value: boolean) {
    native.setRequiresGrad(this.handle, value);
  }
  get isLeaf(): boolean {
    return native.isLeaf(this.handle);
  }
  get grad(): Tensor | null {
    const handle = native.grad(this.handle);
    return handle === null ? null : new Tensor(handle);
  }
  set grad(value: Tensor | null) {
    native.setGrad(this.handle, value?.handle ?? null);
  }
  /** Adds the gradient of this tensor to every leaf it came from. A tensor with one element needs no `gradient`. */
  backward(gradient?: Tensor, { retainGraph = false } = {}): void {
    native.backward([this.handle], gradient && [gradient.handle], retainGraph, false, undefined);
  }
  /** The same values, outside the graph. */
  detach(): Tensor {
    return ops.detach(this);
  }

  // Arithmetic, element by element.
  add(other: Operand, alpha?: Scalar): Tensor {
    return other instanceof Tensor ? ops.add(this, other, alpha) : ops.addScalar(this, other, alpha);
  }
  sub(other: Operand, alpha?: Scalar): Tensor {
    return other instanceof Tensor ? ops.sub(this, other, alpha) : ops.subScalar(this, other, alpha);
  }
  mul(other: Operand): Tensor {
    return other instanceof Tensor ? ops.mul(this, other) : ops.mulScalar(this, other);
  }
  div(other: Operand): Tensor {
    return other instanceof Tensor ? ops.div(this, other) : ops.divScalar(this, other);
  }
  floorDivide(other: Operand): Tensor {
    return other instanceof Tensor ? ops.floorDivide(this, other) : ops.floorDivideScalar(this, other);
  }
  remainder(other: Operand): Tensor {
    return other instanceof Tensor ? ops.remainder(this, other) : ops.remainderScalar(this, other);
  }
  pow(exponent: Operand): Tensor {
    return exponent instanceof Tensor ? ops.pow(this, exponent) : ops.powScalar(this, exponent);
  }
  neg(): Tensor {
    return ops.neg(this);
  }
  abs(): Tensor {
    return ops.abs(this);
  }
  sign(): Tensor {
    return ops.sign(this);
  }
  exp(): Tensor {
    return ops.exp(this);
  }
  log(): Tensor {
    return ops.log(this);
  }
  log1p(): Tensor {
    return ops.log1p(this);
  }
  expm1(): Tensor {
    return ops.expm1(this);
  }
  sqrt(): Tensor {
    return ops.sqrt(this);
  }
  rsqrt(): Tensor {
    return ops.rsqrt(this);
  }
  square(): Tensor {
    return ops.square(this);
  }
  reciprocal(): Tensor {
    return ops.reciprocal(this);
  }
  sin(): Tensor {
    return ops.sin(this);
  }
  cos(): Tensor {
    return ops.cos(this);
  }
  tanh(): Tensor {
    return ops.tanh(this);
  }
  sigmoid(): Tensor {
    return ops.sigmoid(this);
  }
  logSigmoid(): Tensor {
    return ops.logSigmoid(this);
  }
  softplus(): Tensor {
    return ops.softplus(this);
  }
  relu(): Tensor {
    return ops.relu(this);
  }
  elu(): Tensor {
    return ops.elu(this);
  }
  gelu(): Tensor {
    return ops.gelu(this);
  }
  silu(): Tensor {
    return ops.silu(this);
  }
  floor(): Tensor {
    return ops.floor(this);
  }
  round(): Tensor {
    return ops.round(this);
  }
  clamp(min: number | null, max: number | null = null): Tensor {
    return ops.clamp(this, min, max);
  }
  minimum(other: Tensor): Tensor {
    return ops.minimum(this, other);
  }
  maximum(other: Tensor): Tensor {
    return ops.maximum(this, other);
  }
  /** this + weight * (end - this) */
  lerp(end: Tensor, weight: number): Tensor {
    return ops.lerp(this, end, weight);
  }

  // Comparison and logic; results are bool.
  eq(other: Operand): Tensor {
    return other instanceof Tensor ? ops.eq(this, other) : ops.eqScalar(this, other);
  }
  ne(other: Operand): Tensor {
    return other instanceof Tensor ? ops.ne(this, other) : ops.neScalar(this, other);
  }
  lt(other: Operand): Tensor {
    return other instanceof Tensor ? ops.lt(this, other) : ops.ltScalar(this, other);
  }
  le(other: Operand): Tensor {
    return other instanceof Tensor ? ops.le(this, other) : ops.leScalar(this, other);
  }
  gt(other: Operand): Tensor {
    return other instanceof Tensor ? ops.gt(this, other) : ops.gtScalar(this, other);
  }
  ge(other: Operand): Tensor {
    return other instanceof Tensor ? ops.ge(this, other) : ops.geScalar(this, other);
  }
  logicalAnd(other: Tensor): Tensor {
    return ops.logicalAnd(this, other);
  }
  logicalOr(other: Tensor): Tensor {
    return ops.logicalOr(this, other);
  }
  logicalNot(): Tensor {
    return ops.logicalNot(this);
  }
  isFinite(): Tensor {
    return ops.isFinite(this);
  }
  isNaN(): Tensor {
    return ops.isNaN(this);
  }
  maskedFill(mask: Tensor, value: Scalar): Tensor {
    return ops.maskedFill(this, mask, value);
  }
  /** `this` where the condition holds, `other` elsewhere. */
  where(condition: Tensor, other: Operand): Tensor {
    return other instanceof Tensor ? ops.where(condition, this, other) : ops.whereScalar(condition, this, other);
  }
  nanToNum(nan = 0): Tensor {
    return ops.nanToNum(this, nan);
  }

  // Reductions. Without `dim`, over everything.
  sum(dim?: number | readonly number[], keepDim = false): Tensor {
    return dim === undefined ? ops.sum(this) : ops.sumDim(this, listOf(dim), keepDim);
  }
  mean(dim?: number | readonly number[], keepDim = false): Tensor {
    return dim === undefined ? ops.mean(this) : ops.meanDim(this, listOf(dim), keepDim);
  }
  /** `correction` 1 divides by n - 1, 0 by n. */
  std(dim?: number | readonly number[], { correction = 1, keepDim = false } = {}): Tensor {
    return ops.std(this, dim === undefined ? null : listOf(dim), correction, keepDim);
  }
  variance(dim?: number | readonly number[], { correction = 1, keepDim = false } = {}): Tensor {
    return ops.variance(this, dim === undefined ? null : listOf(dim), correction, keepDim);
  }
  max(): Tensor {
    return ops.max(this);
  }
  min(): Tensor {
    return ops.min(this);
  }
  amax(dim: number | readonly number[], keepDim = false): Tensor {
    return ops.amax(this, listOf(dim), keepDim);
  }
  amin(dim: number | readonly number[], keepDim = false): Tensor {
    return ops.amin(this, listOf(dim), keepDim);
  }
  argmax(dim: number, keepDim = false): Tensor {
    return ops.argmax(this, dim, keepDim);
  }
  any(): Tensor {
    return ops.any(this);
  }
  all(): Tensor {
    return ops.all(this);
  }
  norm(): Tensor {
    return ops.norm(this);
  }
  cumsum(dim: number): Tensor {
    return ops.cumsum(this, dim);
  }
  logSumExp(dim: number, keepDim = false): Tensor {
    return ops.logSumExp(this, [dim], keepDim);
  }
  softmax(dim: number): Tensor {
    return ops.softmax(this, dim);
  }
  logSoftmax(dim: number): Tensor {
    return ops.logSoftmax(this, dim);
  }
  topk(k: number, dim = -1): [values: Tensor, indices: Tensor] {
    return ops.topk(this, k, dim);
  }
  sort(dim = -1, descending = false): [values: Tensor, indices: Tensor] {
    return ops.sort(this, dim, descending);
  }

  // Shape. Views where libtorch can, copies where it must.
  view(...shape: number[]): Tensor {
    return ops.view(this, shape);
  }
  reshape(...shape: number[]): Tensor {
    return ops.reshape(this, shape);
  }
  flatten(start = 0, end = -1): Tensor {
    return ops.flatten(this, start, end);
  }
  transpose(a: number, b: number): Tensor {
    return ops.transpose(this, a, b);
  }
  permute(...dims: number[]): Tensor {
    return ops.permute(this, dims);
  }
  /** The transpose of a matrix. */
  t(): Tensor {
    return ops.t(this);
  }
  squeeze(dim: number): Tensor {
    return ops.squeeze(this, dim);
  }
  unsqueeze(dim: number): Tensor {
    return ops.unsqueeze(this, dim);
  }
  expand(...shape: number[]): Tensor {
    return ops.expand(this, shape);
  }
  repeatInterleave(repeats: number, dim: number): Tensor {
    return ops.repeatInterleave(this, repeats, dim);
  }
  narrow(dim: number, start: number, length: number): Tensor {
    return ops.narrow(this, dim, start, length);
  }
  slice(dim: number, start: number, end?: number, step = 1): Tensor {
    return ops.slice(this, dim, start, end ?? null, step);
  }
  select(dim: number, index: number): Tensor {
    return ops.select(this, dim, index);
  }
  split(size: number, dim = 0): Tensor[] {
    return ops.split(this, size, dim);
  }
  splitSizes(sizes: readonly number[], dim = 0): Tensor[] {
    return ops.splitSizes(this, sizes, dim);
  }
  chunk(chunks: number, dim = 0): Tensor[] {
    return ops.chunk(this, chunks, dim);
  }
  contiguous(): Tensor {
    return ops.contiguous(this);
  }
  clone(): Tensor {
    return ops.clone(this);
  }
  flip(...dims: number[]): Tensor {
    return ops.flip(this, dims);
  }
  tril(diagonal = 0): Tensor {
    return ops.tril(this, diagonal);
  }

  // Indexing.
  gather(dim: number, index: Tensor): Tensor {
    return ops.gather(this, dim, index);
  }
  scatter(dim: number, index: Tensor, source: Operand): Tensor {
    return source instanceof Tensor
      ? ops.scatter(this, dim, index, source)
      : ops.scatterValue(this, dim, index, source);
  }
  indexSelect(dim: number, index: Tensor): Tensor {
    return ops.indexSelect(this, dim, index);
  }
  /** Advanced indexing: one index tensor per leading dimension, null for all of it. */
  index(...indices: (Tensor | null)[]): Tensor {
    return ops.index(this, indices);
  }
  indexAdd(dim: number, index: Tensor, source: Tensor): Tensor {
    return ops.indexAdd(this, dim, index, source);
  }
  maskedSelect(mask: Tensor): Tensor {
    return ops.maskedSelect(this, mask);
  }
  /** The positions of true or non-zero values, [count, dims]. */
  nonzero(): Tensor {
    return ops.nonzero(this);
  }

  // Matrices.
  matmul(other: Tensor): Tensor {
    return ops.matmul(this, other);
  }
  mm(other: Tensor): Tensor {
    return ops.mm(this, other);
  }
  bmm(other: Tensor): Tensor {
    return ops.bmm(this, other);
  }

  // Type and place. The same tensor where nothing changes.
  to(dtype: DType): Tensor {
    return this.dtype === dtype ? this : ops.toDtype(this, dtype);
  }
  toDevice(device: Device, { nonBlocking = false } = {}): Tensor {
    return ops.toDevice(this, null, null, device, null, nonBlocking);
  }
  /** The same bits read as another type of the same size. */
  viewAs(dtype: DType): Tensor {
    return ops.viewDtype(this, dtype);
  }

  // In place. An operator returns a second handle to the tensor it changed, which is let go at once.
  add_(other: Operand, alpha?: Scalar): this {
    if (other instanceof Tensor) ops.add_(this, other, alpha).dispose();
    else ops.addScalar_(this, other, alpha).dispose();
    return this;
  }
  sub_(other: Operand, alpha?: Scalar): this {
    if (other instanceof Tensor) ops.sub_(this, other, alpha).dispose();
    else ops.subScalar_(this, other, alpha).dispose();
    return this;
  }
  mul_(other: Operand): this {
    if (other instanceof Tensor) ops.mul_(this, other).dispose();
    else ops.mulScalar_(this, other).dispose();
    return this;
  }
  div_(other: Operand): this {
    if (other instanceof Tensor) ops.div_(this, other).dispose();
    else ops.divScalar_(this, other).dispose();
    return this;
  }
  lerp_(end: Tensor, weight: number): this {
    ops.lerp_(this, end, weight).dispose();
    return this;
  }
  clamp_(min: number | null, max: number | null = null): this {
    ops.clamp_(this, min, max).dispose();
    return this;
  }
  copy_(source: Tensor, { nonBlocking = false } = {}): this {
    ops.copy_(this, source, nonBlocking).dispose();
    return this;
  }
  fill_(value: Scalar): this {
    ops.fill_(this, value).dispose();
    return this;
  }
  zero_(): this {
    ops.zero_(this).dispose();
    return this;
  }
  indexCopy_(dim: number, index: Tensor, source: Tensor): this {
    ops.indexCopy_(this, dim, index, source).dispose();
    return this;
  }
  indexAdd_(dim: number, index: Tensor, source: Tensor): this {
    ops.indexAdd_(this, dim, index, source).dispose();
    return this;
  }

  #toTypedArrayOfNumbers(): ArrayLike<number> {
    const { dtype } = this;
    if (dtype === "float16" || dtype === "bfloat16") return this.toFloat32Array();
    const values = this.toTypedArray();
    return values instanceof BigInt64Array ? Array.from(values, Number) : values;
  }
}

setTensorClass((handle) => new Tensor(handle));

function listOf(dim: number | readonly number[]): readonly number[] {
  return typeof dim === "number" ? [dim] : dim;
}
