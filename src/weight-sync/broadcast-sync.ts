/**
 * Engines in other processes: rank 0 of a group trains and sends, every other rank has an engine and receives. Where engines are split over ranks,
 * there is a group for each part of the model, and the ranks that have it get no more.
 *
 * The group is for weights alone, since every rank must make the same calls in the same order. `publish` waits for the
 * slowest engine to have the new version. Weights come in parts, a layer each as a trainer gives them. Beside the weights, each side holds one bucket: a receiver that can be held writes them to their
 * places as they come, and computes nothing until all are there. Others hold a whole copy, and apply it at once.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import { cutWeights, type WeightCuts } from "../models/causal-lm/weight-cuts.ts";
import { empty } from "../torch/create.ts";
import type { ProcessGroup } from "../torch/distributed/process-group.ts";
import { bytesOf, type Device } from "../torch/dtype.ts";
import { keep, tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { WeightTarget } from "./shared-memory-sync.ts";
import {
  agreeOn,
  listWeights,
  receiveHeader,
  receiveList,
  receiveValues,
  sendHeader,
  sendList,
  sendValues,
  type WeightFacts,
} from "./weight-broadcast.ts";
import type { WeightSync } from "./weight-sync.ts";

/**
 * 64 MB: a few transfers for a small model, and little memory next to a large one. Both sides must use the same size.
 */
const BUCKET_BYTES = 64 * 2 ** 20;

interface BroadcastParts {
  /** Runs a function on the trainer's weights, some at a time, while no step runs. */
  readonly eachWeights: (use: (weights: ReadonlyMap<string, Tensor>) => Promise<void>) => Promise<void>;
  readonly receivers: readonly Receivers[];
  readonly clock: Clock;
}

/** Engines, or the ranks of split ones, that have the same part of the model. */
export interface Receivers {
  /** Their process group, of which this process is rank 0. */
  readonly group: ProcessGroup;
  /** The part. Default: all of it. */
  readonly cuts?: WeightCuts;
}

interface BroadcastSync extends WeightSync {
  /** Tells the receivers that no more weights will come. */
  close(): Promise<void>;
}

export function createBroadcastSync({ eachWeights, receivers, clock }: BroadcastParts): BroadcastSync {
  let device: Device = "cpu";
  // Where one fails, what the others are sent is still read: it ends before the weights may go.
  const toAll = async <Result>(send: (to: Receivers) => Promise<Result>): Promise<readonly Result[]> => {
    const sent = receivers.map(send);
    await Promise.allSettled(sent);
    return Promise.all(sent);
  };
  return {
    publish: async (version) => {
      const startedMs = clock();
      let numBytes = 0;
      await eachWeights(async (weights) => {
        device = weights.values().next().value?.device ?? device;
        await toAll(async ({ group, cuts }) => {
          const parts = tensorScope(() => (cuts === undefined ? weights : cutWeights(weights, cuts)));
          try {
            await sendWeights(group, parts, device);
            for (const { numel, dtype } of parts.values()) numBytes += (group.worldSize - 1) * numel * bytesOf(dtype);
          } finally {
            for (const [name, part] of parts) if (part !== weights.get(name)) part.dispose();
          }
        });
      });
      await toAll(({ group }) => sendHeader(group, { kind: "version", version }, device));
      const taken = await toAll(({ group }) => agreeOn(group, true, device));
      if (!taken.every(Boolean)) throw refused(version);
      return { "sync/ms": clock() - startedMs, "sync/bytes": numBytes };
    },
    close: async () => void (await toAll(({ group }) => sendHeader(group, { kind: "end" }, device))),
  };
}

/** Sends some of the weights. */
async function sendWeights(group: ProcessGroup, weights: ReadonlyMap<string, Tensor>, device: Device): Promise<void> {
  const list = listWeights(weights);
  await sendHeader(group, { kind: "weights", numListBytes: list.length }, device);
  await sendList(group, list, device);
  await sendValues(group, [...weights.values()], BUCKET_BYTES);
}

/**
 * Waits for the next version, and gives it to the engine. Resolves with the version once the engine has it, or with
 * null when the sender has closed. Rejects where the engine does not take the weights; the sender is told.
 *
 * @param device where the weights arrive: that of the engine, and a GPU for an NCCL group
 */
export async function receiveWeights(
  group: ProcessGroup,
  engine: WeightTarget & Partial<WeightPlaces>,
  device: Device = "cpu",
): Promise<number | null> {
  // Those that the engine has no place for, until it is given all of them.
  const held = new Map<string, Tensor>();
  try {
    for (;;) {
      const header = await receiveHeader(group, device);
      if (header.kind === "end") return null;
      if (header.kind === "version") {
        await takeVersion(group, engine, header.version, { held, device });
        return header.version;
      }
      await receivePart(await receiveList(group, header.numListBytes, device));
    }
  } finally {
    for (const weight of held.values()) weight.dispose();
  }

  async function receivePart(facts: readonly WeightFacts[]): Promise<void> {
    const places = engine.beginUpdate?.(facts) ?? null;
    if (places === null)
      for (const { name, dtype, shape } of facts) held.set(name, keep(empty(shape, { dtype, device })));
    const targets = facts.map(({ name }) => (places ?? held).get(name)!);
    try {
      await receiveValues(group, targets, BUCKET_BYTES);
    } finally {
      for (const place of places?.values() ?? []) place.dispose();
    }
  }
}

/** All weights have come: the engine takes them, and the sender is told whether it could. */
async function takeVersion(
  group: ProcessGroup,
  engine: WeightTarget & Partial<WeightPlaces>,
  version: number,
  { held, device }: { readonly held: ReadonlyMap<string, Tensor>; readonly device: Device },
): Promise<void> {
  const take = async () => (held.size > 0 ? engine.updateWeights(version, held) : engine.endUpdate!(version));
  const failure = await take().then(
    () => undefined,
    (cause: unknown) => ({ cause }),
  );
  await agreeOn(group, failure === undefined, device);
  if (failure !== undefined) throw failure.cause;
}

/** A receiver whose own memory weights are written to as they come, so that it needs no second copy. */
interface WeightPlaces {
  /** Memory for weights like these, which the caller disposes of; null where it has other ones. From then on it computes nothing until `endUpdate`. */
  beginUpdate(facts: readonly WeightFacts[]): ReadonlyMap<string, Tensor> | null;
  /** All weights have come. Throws where some have not. */
  endUpdate(version: number): void;
}

function refused(version: number): RerollError {
  return new RerollError(
    "SYNC_FAILED",
    `An engine did not take version ${version} of the weights. Its own process says why; all engines must run the trainer's model.`,
    { version },
  );
}
