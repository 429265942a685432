/**
 * Files and folders that change as a whole: a reader, or the process that resumes after a crash, finds what was there before
 * or what is there now, never half of it.
 *
 * What is written goes to a draft beside its place, `<path>.writing`, is flushed to disk and renamed. A draft that a
 * crash has left behind is overwritten by the next writer; there must be one writer of a path at a time. A full disk is a
 * DISK_FULL that names the folder.
 */
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";

/** Writes a file piece by piece, blocking the thread, which is meant for threads that write weights. */
export function replaceFileSync(path: string, fill: (append: (bytes: Uint8Array) => void) => void): void {
  const draft = draftOf(path);
  const descriptor = openSync(draft, "w");
  let isComplete = false;
  try {
    try {
      fill((bytes) => writeAll(descriptor, bytes));
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(draft, path);
    isComplete = true;
  } catch (cause) {
    throw isDiskFull(cause) ? diskFull(path, cause) : cause;
  } finally {
    if (!isComplete) rmSync(draft, { force: true });
  }
}

/** Writes a text file. */
export async function replaceText(path: string, text: string): Promise<void> {
  await replacePath(path, async (draft) => {
    const file = await open(draft, "w");
    try {
      await file.writeFile(text);
    } finally {
      await file.close();
    }
  });
}

/**
 * Lets `write` make a file or a folder at a draft path, then puts it in place of what is at `path`. On an error the draft is
 * removed and the error is thrown on.
 */
export async function replacePath(path: string, write: (draft: string) => void | Promise<void>): Promise<void> {
  const draft = draftOf(path);
  await rm(draft, { recursive: true, force: true });
  let isComplete = false;
  try {
    await write(draft);
    const isFolder = (await stat(draft)).isDirectory();
    const inside = isFolder ? await readdir(draft, { recursive: true }) : [];
    await Promise.all([draft, ...inside.map((name) => join(draft, name))].map(flush));
    // A file is replaced by the rename itself; a folder that is not empty has to go first.
    if (isFolder) await rm(path, { recursive: true, force: true });
    await rename(draft, path);
    await flush(dirname(path));
    isComplete = true;
  } catch (cause) {
    throw isDiskFull(cause) ? diskFull(path, cause) : cause;
  } finally {
    if (!isComplete) await rm(draft, { recursive: true, force: true });
  }
}

function draftOf(path: string): string {
  return `${path}.writing`;
}

/** Also what a file in a draft was refused with: the draft goes, and the folder that it was to be in stays to be named. */
export function isDiskFull(cause: unknown): boolean {
  return ["ENOSPC", "EDQUOT", "DISK_FULL"].includes((cause as NodeJS.ErrnoException).code ?? "");
}

export function diskFull(path: string, cause: unknown): RerollError {
  return new RerollError(
    "DISK_FULL",
    `The disk of ${dirname(path)} has no room for ${basename(path)}. Make room there and run the command again; a run that has a checkpoint goes on with --resume.`,
    { path },
    { cause },
  );
}

/** Waits until a file, or the list of names in a folder, is on disk. */
async function flush(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function writeAll(descriptor: number, bytes: Uint8Array): void {
  let written = 0;
  while (written < bytes.byteLength) {
    written += writeSync(descriptor, bytes, written, Math.min(bytes.byteLength - written, maxWriteBytes));
  }
}

/** One write call takes at most 2 GiB - 1 in Node; 1 GiB keeps clear of that. */
const maxWriteBytes = 2 ** 30;
