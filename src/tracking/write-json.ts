/** A JSON file that is replaced as a whole: a reader sees the old one or the new one, never half of one. */
import { rename, writeFile } from "node:fs/promises";

/** Writes a value beside its place, then moves it there. One writer at a time. */
export async function writeJson(path: string, value: unknown): Promise<void> {
  const draft = `${path}.draft`;
  await writeFile(draft, `${JSON.stringify(value, null, 2)}\n`);
  await rename(draft, path);
}
