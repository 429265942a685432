/**
 * Files that say whether they are whole and belong together: a manifest with the size and hash of each file, and JSON with a hash of its
 * own and that of the manifest beside it.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import { replaceText } from "../files/replace-file.ts";
import { hashOf, MANIFEST } from "./manifest.ts";

const manifestSchema = z.record(z.string(), z.object({ bytes: z.number(), sha256: z.string() }));

/** Writes JSON that holds its own hash and that of the manifest in its folder, if any; under its name only when it is complete. */
export async function writeChecked(path: string, value: object): Promise<void> {
  const manifest = await readManifest(dirname(path));
  const body = { ...value, ...(manifest !== null && { manifest: sha256(manifest) }) };
  await replaceText(path, `${JSON.stringify({ ...body, sha256: sha256(JSON.stringify(body)) })}\n`);
}

/** Reads JSON and checks its hash. A file without one is of an earlier version, and is taken as it is. */
export async function readChecked(path: string): Promise<Readonly<Record<string, unknown>>> {
  return (await readSealed(path)).value;
}

interface Sealed {
  readonly value: Readonly<Record<string, unknown>>;
  readonly hash: string | undefined;
  /** The hash of the manifest that it was written beside. */
  readonly manifest: string | undefined;
}

async function readSealed(path: string): Promise<Sealed> {
  try {
    const { sha256: hash, ...body } = JSON.parse(await readFile(path, "utf8"));
    const { manifest, ...value } = body;
    if (hash === undefined || hash === sha256(JSON.stringify(body))) return { value, hash, manifest };
  } catch (cause) {
    throw new RerollError("CHECKPOINT_BROKEN", `${path} cannot be read: ${String(cause)}.`, { path }, { cause });
  }
  throw new RerollError("CHECKPOINT_BROKEN", `${path} has changed since it was written.`, { path });
}

/** What is wrong with a folder, in words: its JSON `file` first, then everything in its manifest. null where it is whole. */
export async function damageOf(folder: string, file: string): Promise<string | null> {
  if (!existsSync(join(folder, file))) return `${file} is missing`;
  try {
    const { hash, manifest } = await readSealed(join(folder, file));
    // Earlier versions wrote neither hashes nor manifests.
    return hash === undefined ? null : await damageByManifest(folder, file, manifest);
  } catch {
    return `${file} is not what was written`;
  }
}

async function damageByManifest(folder: string, file: string, hash: string | undefined): Promise<string | null> {
  const manifest = await readManifest(folder);
  if (manifest === null) return `${MANIFEST} is missing`;
  if (hash !== undefined && hash !== sha256(manifest)) return `${file} and ${MANIFEST} were not written together`;
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

function readManifest(folder: string): Promise<string | null> {
  return readFile(join(folder, MANIFEST), "utf8").catch(() => null);
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
