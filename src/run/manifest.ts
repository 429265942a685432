/** The manifest of a folder: the size and hash of each file in it. `checkpoint-files.ts` checks a folder by it. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join, relative } from "node:path";
import { replaceText } from "../files/replace-file.ts";

export const MANIFEST = "manifest.json";

/** Writes the manifest of a folder whose files are complete. */
export async function writeManifest(folder: string): Promise<void> {
  const entries: [string, { readonly bytes: number; readonly sha256: string }][] = [];
  for (const path of await filesIn(folder)) {
    entries.push([relative(folder, path), { bytes: (await stat(path)).size, sha256: await hashOf(path) }]);
  }
  await replaceText(join(folder, MANIFEST), `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`);
}

/** Reads in pieces: weights may be larger than the memory that is left, and other work goes on in between. */
export async function hashOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const piece of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(piece);
  return hash.digest("hex");
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}
