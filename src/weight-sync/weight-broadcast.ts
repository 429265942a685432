/**
 * How weights travel in a process group: rank 0 sends, all others receive. Both sides call the same functions in the
 * same order.
 *
 * Weights come in parts: a header, a list that names every weight of the part with its type and shape, and the values in buckets of
 * several weights each. A last header names the version, and every rank says whether it could use them.
 */

import { noGrad } from "../torch/autograd.ts";
import { cat, empty, tensor } from "../torch/create.ts";
import { planBuckets } from "../torch/distributed/bucket-plan.ts";
import type { ProcessGroup } from "../torch/distributed/process-group.ts";
import type { Device, DType } from "../torch/dtype.ts";
import { keep, tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";

const SENDER = 0;

/** The message that announces what comes next. */
type WeightHeader =
  | { readonly kind: "weights"; readonly numListBytes: number }
  /** All weights of this version have come. */
  | { readonly kind: "version"; readonly version: number }
  /** No more weights will come. */
  | { readonly kind: "end" };

/** One weight without its values. */
export interface WeightFacts {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
}

export async function sendHeader(group: ProcessGroup, header: WeightHeader, device: Device): Promise<void> {
  const value = header.kind === "end" ? 0 : header.kind === "version" ? header.version : header.numListBytes;
  await broadcastNumbers(group, [kinds.indexOf(header.kind), value], "int64", device);
}

export async function receiveHeader(group: ProcessGroup, device: Device): Promise<WeightHeader> {
  const [index = 0, value = 0] = await broadcastNumbers(group, [0, 0], "int64", device);
  const kind = kinds[index]!;
  if (kind === "end") return { kind };
  return kind === "version" ? { kind, version: value } : { kind, numListBytes: value };
}

const kinds = ["end", "weights", "version"] as const;

export function listWeights(weights: ReadonlyMap<string, Tensor>): Uint8Array {
  const facts = [...weights].map(([name, { dtype, shape }]): WeightFacts => ({ name, dtype, shape: [...shape] }));
  return new TextEncoder().encode(JSON.stringify(facts));
}

export async function sendList(group: ProcessGroup, list: Uint8Array, device: Device): Promise<void> {
  await broadcastNumbers(group, list, "uint8", device);
}

export async function receiveList(group: ProcessGroup, numBytes: number, device: Device): Promise<WeightFacts[]> {
  const bytes = await broadcastNumbers(group, new Uint8Array(numBytes), "uint8", device);
  return JSON.parse(new TextDecoder().decode(Uint8Array.from(bytes))) as WeightFacts[];
}

/** Sends the values of tensors, in buckets of at most `bucketBytes`; one that is larger travels alone. */
export async function sendValues(group: ProcessGroup, tensors: readonly Tensor[], bucketBytes: number): Promise<void> {
  for (const bucket of planBuckets(tensors, bucketBytes)) {
    const joined = () => cat(bucket.map((one) => one.detach().reshape(-1)));
    const flat = keep(noGrad(() => tensorScope(() => joined().toDevice(group.deviceFor(bucket[0]!)))));
    await group.broadcast(flat, SENDER).finally(() => flat.dispose());
  }
}

/** Writes what comes into tensors with the types and shapes of those that are sent, in the same order. */
export async function receiveValues(
  group: ProcessGroup,
  tensors: readonly Tensor[],
  bucketBytes: number,
): Promise<void> {
  for (const bucket of planBuckets(tensors, bucketBytes)) {
    const { dtype } = bucket[0]!;
    const device = group.deviceFor(bucket[0]!);
    const numel = bucket.reduce((sum, one) => sum + one.numel, 0);
    const flat = keep(empty([numel], { dtype, device }));
    try {
      await group.broadcast(flat, SENDER);
      tensorScope(() => {
        const parts = flat.splitSizes(bucket.map((one) => one.numel));
        for (const [i, target] of bucket.entries()) target.copy_(parts[i]!.view(...target.shape));
      });
    } finally {
      flat.dispose();
    }
  }
}

/** Whether every rank could use the weights. Waits for all of them. */
export async function agreeOn(group: ProcessGroup, isDone: boolean, device: Device): Promise<boolean> {
  const flag = keep(tensor([isDone ? 1 : 0], { dtype: "int32", device: placeOf(group, device) }));
  try {
    await group.allReduce(flag, "min");
    return flag.toArray()[0] === 1;
  } finally {
    flag.dispose();
  }
}

/** Gloo carries what is in host memory. */
function placeOf({ backend }: ProcessGroup, device: Device): Device {
  return backend === "gloo" ? "cpu" : device;
}

async function broadcastNumbers(
  group: ProcessGroup,
  values: readonly number[] | Uint8Array,
  dtype: "int64" | "uint8",
  device: Device,
): Promise<number[]> {
  const carrier = keep(tensor([...values], { dtype, device: placeOf(group, device) }));
  try {
    await group.broadcast(carrier, SENDER);
    return carrier.toArray();
  } finally {
    carrier.dispose();
  }
}
