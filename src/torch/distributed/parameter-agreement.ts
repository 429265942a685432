/** Whether all ranks of a group have the same parameters. */
import { createHash } from "node:crypto";
import { RerollError } from "../../errors/reroll-error.ts";
import { tensor } from "../create.ts";
import type { Device } from "../dtype.ts";
import { keep } from "../scope.ts";
import type { Tensor } from "../tensor.ts";
import type { ProcessGroup } from "./process-group.ts";

/**
 * Throws on every rank, naming the first difference, where the names, types, shapes, order or trainability of the
 * parameters differ. Ranks compare a hash; the names travel only where it differs. Call it on all ranks.
 */
export async function expectSameParameters(
  group: ProcessGroup,
  parameters: ReadonlyMap<string, Tensor>,
): Promise<void> {
  const first = parameters.values().next().value;
  if (first === undefined) {
    throw new RerollError("NO_PARAMETERS", "parameters is empty. Pass module.namedParameters().");
  }
  const lines = [...parameters].map(describeParameter);
  const digest = createHash("sha256").update(lines.join("\n")).digest();
  const digests = await gatherBytes(group, digest, group.deviceFor(first));
  if (digests.every((other) => digest.equals(other))) return;
  const listings = await gatherTexts(group, lines.join("\n"), group.deviceFor(first));
  throw describeDifference(listings.map((listing) => listing.split("\n")));
}

function describeParameter([name, parameter]: readonly [string, Tensor]): string {
  return `${name} ${parameter.dtype}[${parameter.shape.join(", ")}]${parameter.requiresGrad ? "" : " frozen"}`;
}

function describeDifference(listings: readonly (readonly string[])[]): RerollError {
  const reference = listings[0] ?? [];
  const rank = listings.findIndex((listing) => listing.join("\n") !== reference.join("\n"));
  const listing = listings[rank] ?? [];
  const count = Math.max(reference.length, listing.length);
  const position = Array.from({ length: count }).findIndex((_, i) => reference[i] !== listing[i]);
  return new RerollError(
    "PARAMETER_MISMATCH",
    `The ranks have different parameters: number ${position + 1} is ${quote(reference[position])} on rank 0 and ` +
      `${quote(listing[position])} on rank ${rank}. All ranks must build the same model.`,
    { rank, position, counts: listings.map(({ length }) => length) },
  );
}

function quote(line: string | undefined): string {
  return line === undefined ? "missing" : `"${line}"`;
}

async function gatherTexts(group: ProcessGroup, text: string, device: Device): Promise<string[]> {
  const bytes = new TextEncoder().encode(text);
  const length = new Uint8Array(BigInt64Array.of(BigInt(bytes.length)).buffer);
  const lengths = (await gatherBytes(group, length, device)).map((one) => Number(Buffer.from(one).readBigInt64LE()));
  const padded = new Uint8Array(Math.max(...lengths));
  padded.set(bytes);
  const all = await gatherBytes(group, padded, device);
  return all.map((one, rank) => new TextDecoder().decode(one.subarray(0, lengths[rank])));
}

async function gatherBytes(group: ProcessGroup, bytes: Uint8Array, device: Device): Promise<Uint8Array[]> {
  const mine = keep(tensor(Uint8Array.from(bytes), [bytes.length], { device }));
  let gathered: Tensor[] = [];
  try {
    gathered = await group.allGather(mine);
    return gathered.map((one) => Uint8Array.from(one.toArray()));
  } finally {
    for (const one of [mine, ...gathered]) one.dispose();
  }
}
