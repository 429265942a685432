/**
 * One file of the Hub into the blobs of its cache: from where an earlier attempt was cut off, checked, and in place only when it is whole.
 *
 * The part that has arrived lies beside its place as `<hash>.reroll`; other tools name theirs otherwise, so nobody writes into another's.
 */
import { createHash } from "node:crypto";
import { createReadStream, createWriteStream, statSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream } from "node:stream/web";
import { RerollError } from "../errors/reroll-error.ts";
import type { HubClient, HubCommit, HubFile } from "./hub-client.ts";

/** Attempts in a row that bring nothing before a download is given up. One that was cut off later counts anew. */
const MAX_FRUITLESS = 4;
/** A connection that delivers nothing for so long is taken for cut. */
const SILENCE_MS = 30_000;

/** `onBytes` is told how many bytes came, also those of earlier attempts. */
export async function downloadFile(
  client: HubClient,
  commit: HubCommit,
  file: HubFile,
  place: string,
  onBytes: (count: number) => void,
): Promise<void> {
  await mkdir(dirname(place), { recursive: true });
  const part = `${place}.reroll`;
  onBytes(sizeOf(part));
  for (let isSecond = false; ; isSecond = true) {
    await fill(client, commit, file, part, onBytes);
    if ((await hashOf(part, file)) === file.hash) break;
    onBytes(-sizeOf(part));
    await rm(part);
    if (isSecond) throw damaged(commit, file);
  }
  await rename(part, place);
}

/** Appends to the part until it has all bytes. One that has more is left as it is: its hash tells. */
async function fill(
  client: HubClient,
  commit: HubCommit,
  file: HubFile,
  part: string,
  onBytes: (count: number) => void,
): Promise<void> {
  if (file.size === 0) await writeFile(part, "");
  let numFruitless = 0;
  for (let start = sizeOf(part); start < file.size; ) {
    const fault = await append(client, commit, file, { part, start, onBytes });
    const now = sizeOf(part);
    numFruitless = now > start ? 0 : numFruitless + 1;
    if (numFruitless >= MAX_FRUITLESS) throw cutOff(commit, file, now, fault);
    start = now;
  }
}

/** One request. Out: why it ended early, if it did. Refusals and a full disk are thrown. */
async function append(
  client: HubClient,
  commit: HubCommit,
  { path, size }: HubFile,
  { part, start, onBytes }: { part: string; start: number; onBytes: (count: number) => void },
): Promise<unknown> {
  const silence = new AbortController();
  const { body, isPartial } = await client.open(commit, path, start, silence.signal);
  if (!isPartial && start > 0) onBytes(-start);
  const limit = () => setTimeout(() => silence.abort(new Error(`no bytes for ${SILENCE_MS / 1000} s`)), SILENCE_MS);
  let timer = limit();
  let fault: unknown;
  // A source that breaks off ends the file there: what has come of it is written.
  const count = async function* (chunks: AsyncIterable<Uint8Array>) {
    try {
      for await (const chunk of chunks) {
        clearTimeout(timer);
        timer = limit();
        onBytes(chunk.byteLength);
        yield chunk;
      }
    } catch (cause) {
      fault = cause;
    }
  };
  try {
    const source = body === null ? Readable.from([]) : Readable.fromWeb(body as ReadableStream);
    await pipeline(source, count, createWriteStream(part, { flags: isPartial ? "a" : "w" }));
    return fault;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOSPC") throw diskFull(part, size - start, cause);
    return cause;
  } finally {
    clearTimeout(timer);
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** As the Hub names content: SHA-256 of large files, git's hash of others. */
async function hashOf(path: string, { isLarge, size }: HubFile): Promise<string> {
  const hash = isLarge ? createHash("sha256") : createHash("sha1").update(`blob ${size}\0`);
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash);
  return hash.digest("hex");
}

/** The error for a disk without room. */
export function diskFull(path: string, missing: number, cause?: unknown): RerollError {
  return new RerollError(
    "DISK_FULL",
    `${dirname(path)} has no room for ${(missing / 1e9).toFixed(2)} GB more. Make room, or set HF_HOME to a folder of a larger disk.`,
    { path, missing },
    { cause },
  );
}

function damaged({ repo }: HubCommit, { path, hash }: HubFile): RerollError {
  return new RerollError(
    "HUB_DAMAGED",
    `${path} of ${repo} came twice with other content than the Hub announces (hash ${hash}). Try again later, or check HF_ENDPOINT and what stands between.`,
    { repo, path },
  );
}

function cutOff({ repo }: HubCommit, { path, size }: HubFile, now: number, cause: unknown): RerollError {
  return new RerollError(
    "HUB_UNREACHABLE",
    `${path} of ${repo} was cut off at byte ${now} of ${size} and does not go on: ${String(cause ?? "the server ends it there")}. What has come is kept: the next attempt goes on from there.`,
    { repo, path },
    { cause },
  );
}
