/**
 * The only way the dashboard opens files.
 *
 * In: a path below a folder whose own path is real. Out: the file, or undefined when it is not there. A link anywhere
 * on the way, and anything that is not a plain file, is refused: it could lead out of the runs, or block forever.
 */
import { constants } from "node:fs";
import { type FileHandle, open, realpath } from "node:fs/promises";
import { RerollError } from "../errors/reroll-error.ts";

/** Also gives undefined for a run that was there a moment ago and has been deleted since. */
export async function openPlainFile(path: string): Promise<FileHandle | undefined> {
  try {
    if ((await realpath(path)) !== path) throw refused(path);
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    if ((await file.stat()).isFile()) return file;
    await file.close();
    throw refused(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  }
}

/** Reads a small JSON file; undefined if it is missing or not JSON. */
export async function readPlainJson(path: string, maxBytes: number): Promise<unknown> {
  const file = await openPlainFile(path);
  if (file === undefined) return undefined;
  try {
    const { size } = await file.stat();
    if (size > maxBytes) {
      throw new RerollError("FILE_TOO_LARGE", `${path} has ${size} bytes. At most ${maxBytes} are shown.`, {
        path,
        size,
      });
    }
    return JSON.parse(await file.readFile("utf8"));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  } finally {
    await file.close();
  }
}

function refused(path: string): RerollError {
  return new RerollError(
    "PATH_REFUSED",
    `${path} is a link or no plain file. The dashboard reads plain files of run folders only; put a copy there.`,
    { path },
  );
}
