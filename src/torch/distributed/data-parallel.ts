/**
 * Data-parallel training: every rank has the whole model and a part of the batch; gradients are joined across ranks.
 *
 * In: the named parameters of a model, equal on all ranks. Out: after reduceGradients, equal gradients on all ranks.
 *
 * The default reduction is the sum. Where each rank divides its loss by a denominator of the whole batch (samples,
 * tokens), the gradients add up to those of the joined batch, whatever the share of each rank. The mean over ranks is
 * right only where all shares are equal and each rank divides by its own.
 *
 * Values travel in buckets, several parameters flattened into one tensor, so that many small ones cost one transfer. At
 * most maxInFlight buckets are in flight, the next one waits for the oldest: beside the gradients there are never more
 * than maxInFlight * bucketBytes in memory.
 */
import { noGrad } from "../autograd.ts";
import { cat, tensor, zerosLike } from "../create.ts";
import { keep, tensorScope } from "../scope.ts";
import type { Tensor } from "../tensor.ts";
import { planBuckets } from "./bucket-plan.ts";
import { expectSameParameters } from "./parameter-agreement.ts";
import type { ProcessGroup } from "./process-group.ts";

/** 25 MB, as in PyTorch: large enough to use the bandwidth of a network, small enough to have several in flight. */
const DEFAULT_BUCKET_BYTES = 25 * 2 ** 20;

/** The number of transfers that a Gloo group of the addon runs side by side. */
const DEFAULT_MAX_IN_FLIGHT = 4;

/** The parameters to keep equal across the ranks of a group, and how. */
export interface DataParallelOptions {
  readonly group: ProcessGroup;
  /** The parameters, in the same order on all ranks: `module.namedParameters()`. Frozen ones are only broadcast. */
  readonly parameters: ReadonlyMap<string, Tensor>;
  /** Default "sum": denominators are global and belong to the loss. */
  readonly reduction?: "sum" | "mean";
  /** A parameter that is larger travels alone. Default 25 MB. */
  readonly bucketBytes?: number;
  /** Default 4. */
  readonly maxInFlight?: number;
}

/** Keeps the ranks of a group in step. Made by `DataParallel.create`, on all ranks together. */
export class DataParallel {
  readonly #group: ProcessGroup;
  readonly #reduction: "sum" | "mean";
  readonly #maxInFlight: number;
  readonly #buckets: readonly (readonly Tensor[])[];

  private constructor(options: DataParallelOptions, buckets: readonly (readonly Tensor[])[]) {
    this.#group = options.group;
    this.#reduction = options.reduction ?? "sum";
    this.#maxInFlight = options.maxInFlight ?? DEFAULT_MAX_IN_FLIGHT;
    this.#buckets = buckets;
  }

  /** Checks that all ranks have the same parameters, and gives all of them the values of rank 0. */
  static async create(options: DataParallelOptions): Promise<DataParallel> {
    const { group, parameters, bucketBytes = DEFAULT_BUCKET_BYTES } = options;
    await expectSameParameters(group, parameters);
    const all = [...parameters.values()];
    const trainable = all.filter((parameter) => parameter.requiresGrad);
    await broadcastValues(group, planBuckets(all, bucketBytes), options.maxInFlight ?? DEFAULT_MAX_IN_FLIGHT);
    return new DataParallel(options, planBuckets(trainable, bucketBytes));
  }

  /** The number of transfers that a reduction takes. */
  get numBuckets(): number {
    return this.#buckets.length;
  }

  /**
   * Replaces every gradient by its reduction over all ranks. Call it on all ranks, after backward. A parameter without a
   * gradient counts as zero on this rank; one without a gradient on every rank stays without.
   */
  async reduceGradients(): Promise<void> {
    const isUsed = await this.#findUsedParameters();
    await pipeline(this.#buckets, this.#maxInFlight, async (bucket) => {
      const gradients = () => bucket.map((parameter) => parameter.grad ?? zerosLike(parameter.detach()));
      const flat = flatten(this.#group, gradients);
      try {
        await this.#group.allReduce(flat, this.#reduction);
        writeGradients(bucket, flat, isUsed);
      } finally {
        flat.dispose();
      }
    });
  }

  async #findUsedParameters(): Promise<(parameter: Tensor) => boolean> {
    const parameters = this.#buckets.flat();
    const first = parameters[0];
    if (first === undefined) return () => false;
    const flags = keep(
      tensor(parameters.map(hasGradient).map(Number), { dtype: "int32", device: this.#group.deviceFor(first) }),
    );
    try {
      await this.#group.allReduce(flags, "max");
      const values = flags.toArray();
      const used = new Set(parameters.filter((_, i) => values[i] === 1));
      return (parameter) => used.has(parameter);
    } finally {
      flags.dispose();
    }
  }
}

async function broadcastValues(
  group: ProcessGroup,
  buckets: readonly (readonly Tensor[])[],
  maxInFlight: number,
): Promise<void> {
  await pipeline(buckets, maxInFlight, async (bucket) => {
    const flat = flatten(group, () => bucket);
    try {
      await group.broadcast(flat);
      unflatten(flat, bucket, (parameter, value) => parameter.copy_(value));
    } finally {
      flat.dispose();
    }
  });
}

/** Starts the work on items in order, at most `limit` at a time, and waits for all of it also where some fails. */
async function pipeline<T>(items: readonly T[], limit: number, work: (item: T) => Promise<void>): Promise<void> {
  const running: Promise<void>[] = [];
  try {
    for (const item of items) {
      if (running.length >= limit) await running.shift();
      const started = work(item);
      // Its failure is reported when its turn to be awaited comes; until then it must not count as unhandled.
      started.catch(() => undefined);
      running.push(started);
    }
    while (running.length > 0) await running.shift();
  } finally {
    await Promise.allSettled(running);
  }
}

function writeGradients(bucket: readonly Tensor[], flat: Tensor, isUsed: (parameter: Tensor) => boolean): void {
  unflatten(flat, bucket, (parameter, value) => {
    if (!isUsed(parameter)) return;
    if (parameter.grad === null) parameter.grad = value.clone().toDevice(parameter.device);
    else parameter.grad.copy_(value);
  });
}

/** The values of several tensors one after another, where the group moves them, in a tensor that belongs to no scope. */
function flatten(group: ProcessGroup, collect: () => readonly Tensor[]): Tensor {
  return keep(
    noGrad(() =>
      tensorScope(() => {
        const flat = cat(collect().map((one) => one.detach().reshape(-1)));
        return flat.toDevice(group.deviceFor(flat));
      }),
    ),
  );
}

/** Calls `write` with each tensor of a bucket and its part of the flattened values, in its shape. */
function unflatten(flat: Tensor, bucket: readonly Tensor[], write: (target: Tensor, value: Tensor) => void): void {
  noGrad(() =>
    tensorScope(() => {
      const parts = flat.splitSizes(bucket.map((one) => one.numel));
      for (const [i, target] of bucket.entries()) {
        const part = parts[i];
        if (part !== undefined) write(target, part.view(...target.shape));
      }
    }),
  );
}

function hasGradient(parameter: Tensor): boolean {
  return tensorScope(() => parameter.grad !== null);
}
