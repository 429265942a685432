/**
 * Calls one operator with drawn arguments, reads what comes back, and takes gradients through it.
 *
 * Whatever is passed, a call must return or throw. What it returns is no matter here.
 */
import { gradients } from "../../src/torch/autograd.ts";
import { onesLike } from "../../src/torch/create.ts";
import { memoryStats } from "../../src/torch/memory.ts";
import { dynamicOp } from "../../src/torch/operator.ts";
import { manualSeed } from "../../src/torch/random.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import { Tensor } from "../../src/torch/tensor.ts";
import { createRandom, drawArguments } from "./draw-arguments.ts";
import { parseSchema } from "./parse-schema.ts";

/** What became of the calls of one operator. */
export interface FuzzCounts {
  returned: number;
  /** Calls that threw, by error code. */
  readonly threw: Record<string, number>;
  /** Tensors that are still there, though the scope of their call has ended. */
  leaked: number;
}

/** Makes the calls from `first` up to and without `end`. `before` learns the number of each call. */
export function fuzzOperator(
  schemaText: string,
  first: number,
  end: number,
  before: (call: number) => void,
): FuzzCounts {
  const counts: FuzzCounts = { returned: 0, threw: {}, leaked: 0 };
  const liveTensors = memoryStats().liveTensors;
  for (let call = first; call < end; call++) {
    before(call);
    try {
      tensorScope(() => callOnce(schemaText, call));
      counts.returned++;
    } catch (error) {
      const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
      counts.threw[code] = (counts.threw[code] ?? 0) + 1;
    }
  }
  counts.leaked = memoryStats().liveTensors - liveTensors;
  return counts;
}

/** The arguments of one call, as a person can read them. */
export function describeCall(schemaText: string, call: number): string {
  return argumentsOf(schemaText, call).map(describe).join(", ");
}

function callOnce(schemaText: string, call: number): void {
  const args = argumentsOf(schemaText, call);
  const results = tensorsIn(dynamicOp(parseSchema(schemaText).name, { isUnchecked: true })(...args));
  for (const result of results) if (result.numel < 1e5) result.toTypedArray();
  const inputs = tensorsIn(args).filter((input) => input.requiresGrad);
  const outputs = results.filter((result) => result.requiresGrad);
  if (inputs.length === 0 || outputs.length === 0) return;
  const found = gradients(outputs, inputs, { gradOutputs: outputs.map(onesLike) });
  for (const gradient of found) gradient?.toTypedArray();
}

function argumentsOf(schemaText: string, call: number): unknown[] {
  manualSeed(call);
  return drawArguments(parseSchema(schemaText), createRandom(hash(`${schemaText}#${call}`)));
}

function tensorsIn(value: unknown): Tensor[] {
  if (value instanceof Tensor) return value.isDisposed ? [] : [value];
  return Array.isArray(value) ? value.flatMap(tensorsIn) : [];
}

function describe(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(describe).join(", ")}]`;
  if (typeof value === "string") return JSON.stringify(value);
  return String(value);
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value >>> 0;
}
