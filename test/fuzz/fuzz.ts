/**
 * Runs a property of a file reader: whatever the bytes, the reader ends quickly, in bounded memory, with a result or a RerollError.
 */

import fc from "fast-check";
import { RerollError } from "../../src/errors/reroll-error.ts";

/** Fixed, so that a failure in CI is the same failure at a desk. */
const seed = 20_260_214;

/** Long enough for a thousand cases and more, short enough to run at every push. */
const timeLimitMs = 1_500;

/** Processor time. A case that takes longer than this hangs for the purpose; a normal one takes well under a millisecond. */
const maxCaseMs = 1_000;

/** The process may grow by this much over a property: fast-check and the garbage collector need some of it. */
const maxGrowthBytes = 300 * 2 ** 20;

/** Checks `check` on generated cases until the time is up. */
export function runFuzz<Case>(cases: fc.Arbitrary<Case>, check: (sample: Case) => void): void {
  const before = peakMemoryBytes();
  const property = fc.property(cases, (sample) => {
    const elapsed = processorMsOf(() => check(sample));
    if (elapsed > maxCaseMs) throw new Error(`one case took ${elapsed.toFixed(0)} ms`);
  });
  fc.assert(property, { seed, numRuns: 100_000, interruptAfterTimeLimit: timeLimitMs, markInterruptAsFailure: false });
  const growth = peakMemoryBytes() - before;
  if (growth > maxGrowthBytes) throw new Error(`memory grew by ${growth} bytes`);
}

/** Milliseconds of processor time that `work` takes: a machine or a disk that is busy with something else does not count. */
export function processorMsOf(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** What `read` returns, or null when it refuses its input as it should. Any other error, and an INTERNAL one, goes on. */
export function readOrRefuse<Result>(read: () => Result): Result | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof RerollError && error.code !== "INTERNAL") return null;
    throw error;
  }
}

/** Random damage to a file: bytes changed to random or extreme values, cut short, prolonged, or a piece repeated. */
export function damaged(original: Uint8Array, focus: number): fc.Arbitrary<Uint8Array> {
  const place = fc.oneof(
    { weight: 3, arbitrary: fc.nat(Math.min(focus, original.length) - 1) },
    fc.nat(original.length - 1),
  );
  const byte = fc.oneof(fc.nat(255), fc.constantFrom(0, 1, 0x7f, 0x80, 0xff, 0x22, 0x2c, 0x5c, 0x7b, 0x7d));
  const change = fc.oneof(
    { weight: 8, arbitrary: fc.tuple(fc.constant("set"), place, byte) },
    { weight: 2, arbitrary: fc.tuple(fc.constant("word"), place, fc.constantFrom(0, 1, 0xff, 0x7f)) },
    fc.tuple(fc.constant("cut"), place, byte),
    fc.tuple(fc.constant("grow"), place, byte),
    fc.tuple(fc.constant("repeat"), place, byte),
  );
  return fc.array(change, { minLength: 1, maxLength: 6 }).map((changes) => changes.reduce(applyDamage, original));
}

function applyDamage(bytes: Uint8Array, [kind, rawPlace, value]: [string, number, number]): Uint8Array {
  const place = Math.min(rawPlace, bytes.length);
  const copy = new Uint8Array(bytes);
  if (kind === "set") return copy.fill(value, place, place + 1);
  if (kind === "word") return copy.fill(value, place, place + 8);
  if (kind === "cut") return copy.subarray(0, place);
  if (kind === "grow") return new Uint8Array(Buffer.concat([copy, Buffer.alloc(value, value)]));
  return new Uint8Array(Buffer.concat([copy.subarray(0, place), copy.subarray(Math.max(0, place - value))]));
}

function peakMemoryBytes(): number {
  return process.resourceUsage().maxRSS * 1024;
}
