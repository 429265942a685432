/**
 * Stamps: a file that holds the hash of the inputs a step last succeeded with.
 *
 * A step clears its stamp before it starts and writes it after it succeeded, so an interrupted step runs again.
 * Hashes are of contents, so a fresh checkout, a touched file or a copied folder does not trigger work.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Relative paths of all files below a folder, sorted, with `/` between parts; empty when the folder is missing. */
export function listFiles(folder, prefix = "") {
  if (!existsSync(folder)) return [];
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries
    .flatMap((entry) =>
      entry.isDirectory() ? listFiles(join(folder, entry.name), `${prefix}${entry.name}/`) : [`${prefix}${entry.name}`],
    )
    .sort();
}

/** One hash over the names and contents of files, and over any other values that decide the result. */
export function hashInputs(root, files, values = {}) {
  const hash = createHash("sha256").update(JSON.stringify(values));
  for (const file of files) {
    const content = readFileSync(join(root, file));
    hash.update(`\n${file} ${content.length}\n`).update(content);
  }
  return hash.digest("hex");
}

export function stampMatches(stamp, hash) {
  return existsSync(stamp) && readFileSync(stamp, "utf8").trim() === hash;
}

export function writeStamp(stamp, hash) {
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, `${hash}\n`);
}

export function clearStamp(stamp) {
  rmSync(stamp, { force: true });
}
