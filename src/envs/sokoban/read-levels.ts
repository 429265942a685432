/**
 * Level files in Boxoban's format: levels under lines `; number`, in the usual symbols `# @ $ . * +` and space.
 *
 * In: a folder with .txt files, or one such file. Out: all levels, in the order of file names. Rooms are checked when they
 * are asked for.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { RerollError } from "../../errors/reroll-error.ts";
import type { Room } from "./room.ts";
import { readRoom, roomSymbols } from "./room-text.ts";

/** A level as it stands in its file. */
interface Level {
  /** File and number, such as `000.txt/12`. */
  readonly name: string;
  readonly text: string;
}

/** All levels of a folder or a file. */
export function readLevels(path: string): Level[] {
  const levels = levelFiles(path).flatMap(parseLevels);
  if (levels.length > 0) return levels;
  throw new RerollError(
    "DATA_EMPTY",
    `levels: ${path} holds no Sokoban levels. Name a folder with Boxoban's .txt files.`,
    {
      path,
    },
  );
}

/** The room of a level. */
export function readLevel({ name, text }: Level): Room {
  return readRoom(text, roomSymbols.levels, name);
}

function levelFiles(path: string): string[] {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isFile()) return [path];
  if (stats === undefined) {
    throw new RerollError("DATA_EMPTY", `levels: ${path} does not exist. Name a folder with Boxoban's .txt files.`, {
      path,
    });
  }
  return readdirSync(path)
    .filter((name) => name.endsWith(".txt"))
    .sort()
    .map((name) => join(path, name));
}

function parseLevels(file: string): Level[] {
  const text = readFileSync(file, "utf8").replaceAll("\r", "");
  return text
    .split(/^;/m)
    .slice(1)
    .map((part) => {
      const [number = "", ...lines] = part.split("\n");
      const grid = lines.filter((line) => line.trim() !== "").join("\n");
      return { name: `${basename(file)}/${number.trim()}`, text: grid };
    });
}
