/** Files that say whether they are whole: a manifest with the size and hash of each file, and JSON with a hash of its own. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import { replaceText } from "../files/replace-file.ts";

const MANIFEST = "manifest.json";

const manifestSchema = z.record(z.string(), z.object({ bytes: z.number(), sha256: z.string() }));

/** Writes the manifest of a folder whose files are complete. */
export async function writeManifest(folder: string): Promise<void> {
  const entries: [string, { readonly bytes: number; readonly sha256: string }][] = [];
  for (const path of await filesIn(folder)) {
    entries.push([relative(folder, path), { bytes: (await stat(path)).size, sha256: await hashOf(path) }]);
  }
  await writeFile(join(folder, MANIFEST), `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`);
}

/** Writes JSON that holds its own hash, under its name only when it is complete. */
export async function writeChecked(path: string, value: object): Promise<void> {
  const text = JSON.stringify(value);
  await replaceText(path, `${JSON.stringify({ ...value, sha256: sha256(text) })}\n`);
}

/** Reads JSON and checks its hash. A file without one is of an earlier version, and is taken as it is. */
export async function readChecked(path: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const { sha256: hash, ...value } = JSON.parse(await readFile(path, "utf8"));
    if (hash === undefined || hash === sha256(JSON.stringify(value))) return value;
  } catch (cause) {
    throw new RerollError("CHECKPOINT_BROKEN", `${path} cannot be read: ${String(cause)}.`, { path }, { cause });
  }
  throw new RerollError("CHECKPOINT_BROKEN", `${path} has changed since it was written.`, { path });
}

/** What is wrong with a folder, in words: its JSON `file` first, then everything in its manifest. null where it is whole. */
export async function damageOf(folder: string, file: string): Promise<string | null> {
  const text = await readFile(join(folder, file), "utf8").catch(() => null);
  if (text === null) return `${file} is missing`;
  try {
    await readChecked(join(folder, file));
    const { sha256: hash } = JSON.parse(text);
    // Earlier versions wrote neither hashes nor manifests.
    return hash === undefined ? null : await damageByManifest(folder);
  } catch {
    return `${file} is not what was written`;
  }
}

async function damageByManifest(folder: string): Promise<string | null> {
  const manifest = await readFile(join(folder, MANIFEST), "utf8").catch(() => null);
  if (manifest === null) return `${MANIFEST} is missing`;
  const files = manifestSchema.safeParse(parseJson(manifest)).data;
  if (files === undefined) return `${MANIFEST} is not what was written`;
  for (const [name, { bytes, sha256: hash }] of Object.entries(files)) {
    const size = await stat(join(folder, name)).then(
      (found) => found.size,
      () => null,
    );
    if (size === null) return `${name} is missing`;
    if (size !== bytes) return `${name} has ${size} bytes of ${bytes}`;
    if ((await hashOf(join(folder, name))) !== hash) return `${name} is not what was written`;
  }
  return null;
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

/** Reads in pieces: weights may be larger than the memory that is left, and other work goes on in between. */
async function hashOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const piece of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(piece);
  return hash.digest("hex");
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
