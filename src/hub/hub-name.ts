/**
 * Names of repositories on the Hub, as they stand where a path may stand: `owner/name`, `owner/name@revision`, and with a file of the
 * repository, `owner/name/file.gguf`. What exists on disk is never a name, and `hf://` before a name says that it is one.
 */
import { existsSync } from "node:fs";
import { dirname } from "node:path";

/** Whether a repository holds a model or a data set. */
export type RepoKind = "model" | "dataset";

/** What a name stands for. */
export interface HubName {
  /** As in `owner/name`. */
  readonly repo: string;
  /** A branch, a tag or a commit. */
  readonly revision: string;
  /** Whether the name says which revision. */
  readonly isPinned: boolean;
  /** One file or folder of the repository; null for all that is needed. */
  readonly file: string | null;
}

/** The name that a path stands for; null for a path of this machine, whether it exists or not. */
export function hubNameOf(path: string): HubName | null {
  if (existsSync(path)) return null;
  const name = parseHubName(path);
  return name !== null && (path.startsWith(SCHEME) || !isMeantLocal(path, name)) ? name : null;
}

/**
 * Where the folder above is there, or has the name of one that projects have, what is missing in it was misspelled. A repository is
 * not called like a file, and what is named within one is a file.
 */
function isMeantLocal(path: string, { repo, file }: HubName): boolean {
  return (
    existsSync(dirname(path)) ||
    /^(runs|models|data|datasets|checkpoints|outputs)\//.test(path) ||
    FILE.test(repo) ||
    (file !== null && !FILE.test(file))
  );
}

const FILE = /\.(gguf|safetensors|parquet|jsonl?|ndjson|gz)$/;

/** Reads a name without looking at the disk. */
export function parseHubName(text: string): HubName | null {
  const found = NAME.exec(text.startsWith(SCHEME) ? text.slice(SCHEME.length) : text);
  if (found === null) return null;
  const [, repo = "", revision, file] = found;
  if (/(^|\/)\.|\.\.|--/.test(repo) || file?.split("/").includes("..")) return null;
  return {
    repo,
    revision: revision === undefined ? "main" : revision.replaceAll("%2F", "/"),
    isPinned: revision !== undefined,
    file: file ?? null,
  };
}

/** A name as it is written. */
export function showHubName({ repo, revision, isPinned, file }: HubName): string {
  return `${repo}${isPinned ? `@${revision}` : ""}${file === null ? "" : `/${file}`}`;
}

const SCHEME = "hf://";

/** A revision with a slash is written with %2F, apart from the pull requests and conversions that the Hub itself names. */
const NAME = /^([\w.-]{1,96}\/[\w.-]{1,96})(?:@(refs\/pr\/\d+|refs\/convert\/\w+|[\w.%-]+))?(?:\/([^/].*[^/]|[^/]))?$/;
