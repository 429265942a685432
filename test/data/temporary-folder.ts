/** A folder for the files of one test file, gone when its tests are over. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

export interface TemporaryFolder {
  readonly path: string;
  /** Writes a file and returns its path. */
  write(name: string, content: string | Uint8Array): string;
}

/** Call it once, at the top of a test file. */
export function temporaryFolder(): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), "reroll-data-"));
  afterAll(() => rmSync(path, { recursive: true, force: true }));
  return {
    path,
    write: (name, content) => {
      const file = join(path, name);
      writeFileSync(file, content);
      return file;
    },
  };
}
