/**
 * Folders for a sandbox that runs as another user.
 *
 * Root starts the sandbox as nobody, who may not walk to a folder below one with mode 0700, such as /root, and bubblewrap follows the
 * path of what it shows even when it is handed a descriptor. Such folders are copied to the temporary folder, readable by all, and
 * shown from there; the copies are gone when they are removed, or when this process exits.
 */
import { chmodSync, existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { chmod, cp, readdir, realpath, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, sep } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";

interface ReachableFolders {
  /** One path for each that was asked for, the same where everybody can reach it. */
  readonly paths: readonly string[];
  /** Removes the copies. */
  readonly remove: () => Promise<void>;
}

export async function makeReachable(paths: readonly string[]): Promise<ReachableFolders> {
  const hidden = paths.filter((path) => !isReachable(path));
  if (hidden.length === 0) return { paths, remove: async () => {} };
  const folder = mkdtempSync(join(tmpdir(), "reroll-packages-"));
  const removeNow = () => rmSync(folder, { recursive: true, force: true });
  process.once("exit", removeNow);
  const remove = async () => {
    process.off("exit", removeNow);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    chmodSync(folder, 0o755);
    if (!isReachable(folder)) throw unreachable(hidden[0] ?? "");
    const copies = new Map(hidden.map((path, index) => [path, join(folder, String(index))]));
    for (const [path, copy] of copies) await copyForAll(path, copy);
    return { paths: paths.map((path) => copies.get(path) ?? path), remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Whether a user without rights of their own can list the folder. */
export function isReachable(path: string): boolean {
  if (!hasMode(path, 0o005)) return false;
  for (let parent = dirname(path); ; parent = dirname(parent)) {
    if (!hasMode(parent, 0o001)) return false;
    if (parent === dirname(parent)) return true;
  }
}

function hasMode(path: string, bits: number): boolean {
  return (statSync(path).mode & bits) === bits;
}

async function copyForAll(path: string, copy: string): Promise<void> {
  await cp(path, copy, { recursive: true, dereference: true, filter: isCopied });
  const entries = await readdir(copy, { recursive: true });
  for (const entry of ["", ...entries]) await allowReading(join(copy, entry));
}

/** Leaves out links that lead nowhere or back up, and what is neither a file nor a folder. */
async function isCopied(path: string): Promise<boolean> {
  if (!existsSync(path)) return false;
  const found = await stat(path);
  if (!found.isDirectory()) return found.isFile();
  const real = await realpath(path);
  return path === real || !`${path}${sep}`.startsWith(`${real}${sep}`);
}

async function allowReading(path: string): Promise<void> {
  const { mode } = await stat(path);
  await chmod(path, mode | 0o444 | ((mode & 0o100) === 0 ? 0 : 0o111));
}

function unreachable(path: string): RerollError {
  return new RerollError(
    "SANDBOX_UNAVAILABLE",
    `The Python sandbox cannot run here: root starts it as nobody, who can reach neither ${path} nor a copy of it in ${tmpdir()}. Set TMPDIR to a folder that everybody can enter, move the packages to one, or run as an ordinary user.`,
  );
}
