/** What tells one model from another without reading all of it: a digest of its files' names, sizes, and bytes from all over them. */
import { createHash } from "node:crypto";
import { open, readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";

/** Bytes that are read of a file at each of so many places. A file that is smaller than all of them is read whole. */
const CHUNK = 4096;
const NUM_CHUNKS = 256;

/** The digest of a model folder, or of a file such as GGUF. It does not depend on where they are. */
export async function modelDigest(path: string): Promise<string> {
  const isFolder = (await stat(path)).isDirectory();
  const names = isFolder
    ? (await readdir(path)).filter((name) => /\.(safetensors|gguf)$|^config\.json$/.test(name))
    : [];
  const files = isFolder ? names.sort().map((name) => join(path, name)) : [path];
  const hash = createHash("sha256");
  for (const file of files) {
    const { size } = await stat(file);
    hash.update(JSON.stringify([basename(file), size]));
    for (const bytes of await sampleOf(file, size)) hash.update(bytes);
  }
  return hash.digest("hex");
}

async function sampleOf(path: string, size: number): Promise<readonly Buffer[]> {
  const file = await open(path);
  try {
    if (size <= CHUNK * NUM_CHUNKS) return [await file.readFile()];
    const gap = (size - CHUNK) / (NUM_CHUNKS - 1);
    const chunks: Buffer[] = [];
    for (let i = 0; i < NUM_CHUNKS; i++) {
      const { buffer } = await file.read(Buffer.alloc(CHUNK), 0, CHUNK, Math.floor(i * gap));
      chunks.push(buffer);
    }
    return chunks;
  } finally {
    await file.close();
  }
}
