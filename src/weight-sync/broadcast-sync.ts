/**
 * Engines in other processes: rank 0 of a group trains and sends, every other rank has an engine and receives.
 *
 * The group is for weights alone, since every rank must make the same calls in the same order. `publish` waits for the
 * slowest engine to have the new version. Beside the weights, each side holds one bucket: a receiver that can be held writes them to their
 * places as they come, and computes nothing until all are there. Others hold a whole copy, and apply it at once.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import { empty } from "../torch/create.ts";
import type { ProcessGroup } from "../torch/distributed/process-group.ts";
import { bytesOf, type Device } from "../torch/dtype.ts";
import { keep } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { SharedMemoryParts, WeightTarget } from "./shared-memory-sync.ts";
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

interface BroadcastParts extends Pick<SharedMemoryParts, "withWeights"> {
  /** The process group, of which this process is rank 0. */
  readonly group: ProcessGroup;
  readonly clock: Clock;
}

interface BroadcastSync extends WeightSync {
  /** Tells the receivers that no more weights will come. */
  close(): Promise<void>;
}

export function createBroadcastSync({ withWeights, group, clock }: BroadcastParts): BroadcastSync {
  let device: Device = "cpu";
  return {
    publish: (version) =>
      withWeights(async (weights) => {
        const startedMs = clock();
        device = weights.values().next().value?.device ?? device;
        const list = listWeights(weights);
        await sendHeader(group, { kind: "weights", version, numListBytes: list.length }, device);
        await sendList(group, list, device);
        await sendValues(group, [...weights.values()], BUCKET_BYTES);
        if (!(await agreeOn(group, true, device))) throw refused(version);
        const numBytes = [...weights.values()].reduce((sum, { numel, dtype }) => sum + numel * bytesOf(dtype), 0);
        return { "sync/ms": clock() - startedMs, "sync/bytes": numBytes * (group.worldSize - 1) };
      }),
    close: () => sendHeader(group, { kind: "end" }, device),
  };
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
  const header = await receiveHeader(group, device);
  if (header.kind === "end") return null;
  const { version, numListBytes } = header;
  const facts = await receiveList(group, numListBytes, device);
  const places = engine.beginUpdate?.(facts) ?? null;
  const weights = new Map<string, Tensor>(places ?? []);
  try {
    if (places === null)
      for (const { name, dtype, shape } of facts) weights.set(name, keep(empty(shape, { dtype, device })));
    await receiveValues(group, [...weights.values()], BUCKET_BYTES);
    const taken = places === null ? engine.updateWeights(version, weights) : engine.endUpdate!(version);
    const failure = await Promise.resolve(taken).then(
      () => undefined,
      (cause: unknown) => ({ cause }),
    );
    await agreeOn(group, failure === undefined, device);
    if (failure !== undefined) throw failure.cause;
    return version;
  } finally {
    for (const weight of weights.values()) weight.dispose();
  }
}

/** A receiver whose own memory weights are written to as they come, so that it needs no second copy. */
interface WeightPlaces {
  /** Memory for weights like these; null where it has other ones. From then on it computes nothing until `endUpdate`. */
  beginUpdate(facts: readonly WeightFacts[]): ReadonlyMap<string, Tensor> | null;
  /** All weights have come. */
  endUpdate(version: number): void;
}

function refused(version: number): RerollError {
  return new RerollError(
    "SYNC_FAILED",
    `An engine did not take version ${version} of the weights. Its own process says why; all engines must run the trainer's model.`,
    { version },
  );
}
