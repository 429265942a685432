/**
 * Models and data sets by name: what is needed of a repository, found in the cache or fetched into it.
 *
 * `look` asks the Hub where a revision is and what of it is missing here, and fetches nothing large; `fetch` gets the rest. Without a
 * network, or offline on purpose, what the cache holds is used. Processes that want the same repository wait for each other.
 */

import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { RerollError } from "../errors/reroll-error.ts";
import { claimFolder, type FolderClaim } from "../files/folder-claim.ts";
import { diskFull, downloadFile } from "./download-file.ts";
import { RepoCache } from "./hub-cache.ts";
import { HubClient, type HubCommit, type HubFile } from "./hub-client.ts";
import { type HubName, type RepoKind, showHubName } from "./hub-name.ts";
import type { HubSettings } from "./hub-settings.ts";

/** Says which files of a repository are needed, by their names; `readText` gives the text of one, null where there is none. */
export type ChooseFiles = (
  paths: readonly string[],
  readText: (path: string) => Promise<string | null>,
) => Promise<readonly string[]>;

/** What a name stands for and what of it has to be fetched. */
export interface HubFinding {
  readonly kind: RepoKind;
  readonly name: HubName;
  readonly sha: string;
  /** The folder, or the one file that the name says, in the cache. */
  readonly path: string;
  /** The files that are needed, as paths within `path`. */
  readonly needed: readonly string[];
  readonly missing: readonly HubFile[];
  readonly missingBytes: number;
  /** Why the cache is used though it may be out of date; null where the Hub was asked. */
  readonly note: string | null;
}

/** How far a download is. */
export interface HubProgress {
  readonly name: string;
  readonly doneBytes: number;
  readonly totalBytes: number;
}

export interface HubOptions {
  /** Commits to take for names that say no revision, by repository: those that a run was started with. */
  readonly pins?: ReadonlyMap<string, string>;
  readonly onProgress?: (progress: HubProgress) => void;
  /** Milliseconds before each further attempt of a request. Default: up to eight seconds. */
  readonly retryDelaysMs?: readonly number[];
}

/** Files that are fetched at the same time. */
const MAX_FETCHING = 4;
const LOOK_AGAIN_MS = 200;

export class Hub {
  readonly #settings: HubSettings;
  readonly #client: HubClient;
  readonly #options: HubOptions;

  constructor(settings: HubSettings, options: HubOptions = {}) {
    this.#settings = settings;
    this.#client = new HubClient(settings, options.retryDelaysMs);
    this.#options = options;
  }

  /** Finds out what a name needs. */
  async look(kind: RepoKind, name: HubName, choose: ChooseFiles): Promise<HubFinding> {
    const cache = new RepoCache(this.#settings.cacheFolder, kind, name.repo);
    const pin = name.isPinned ? undefined : this.#options.pins?.get(name.repo);
    const revision = pin ?? name.revision;
    const known = cache.knownCommit(revision);
    if (this.#settings.isOffline) {
      if (known === null) throw offline(kind, name, this.#settings.cacheFolder);
      return lookInCache(kind, name, cache, known, choose, null);
    }
    try {
      const commit = await this.#client.commit(kind, name.repo, revision);
      return await this.#lookAt(commit, name, revision, cache, choose);
    } catch (cause) {
      if (known === null || !(cause instanceof RerollError) || cause.code !== "HUB_UNREACHABLE") throw cause;
      const note = `${showHubName(name)}: the Hub cannot be reached, so what was fetched earlier is used, commit ${known.slice(0, 8)}.`;
      return lookInCache(kind, name, cache, known, choose, note);
    }
  }

  /** Fetches what is missing. Out: the folder or file, complete. */
  async fetch({ kind, name, missing, path, sha }: HubFinding): Promise<string> {
    if (missing.length === 0) return path;
    const cache = new RepoCache(this.#settings.cacheFolder, kind, name.repo);
    const claim = await this.#claim(cache);
    try {
      const commit = { kind, repo: name.repo, sha, files: missing };
      // Another process may have fetched them while this one waited.
      const files = missing.filter((file) => !cache.has(sha, file));
      await expectRoom(cache, files);
      await this.#fetchAll(commit, files, cache, showHubName(name));
      return path;
    } finally {
      await claim.release();
    }
  }

  async #lookAt(
    commit: HubCommit,
    name: HubName,
    revision: string,
    cache: RepoCache,
    choose: ChooseFiles,
  ): Promise<HubFinding> {
    const { sha, files, kind } = commit;
    await cache.note(revision, commit);
    const within = scopeOf(
      name,
      files.map(({ path }) => path),
    );
    const readText = async (path: string) => {
      const file = files.find((one) => one.path === within.full(path));
      return file === undefined ? null : this.#readSmall(commit, file, cache);
    };
    const needed = await within.choose(choose, readText);
    const wanted = new Set(needed.map(within.full));
    const missing = files.filter((file) => wanted.has(file.path) && !cache.has(sha, file));
    const missingBytes = missing.reduce((sum, { size }) => sum + size, 0);
    return { kind, name, sha, path: within.path(cache.snapshot(sha)), needed, missing, missingBytes, note: null };
  }

  /** The text of a small file, which is kept. */
  async #readSmall(commit: HubCommit, file: HubFile, cache: RepoCache): Promise<string> {
    if (!cache.has(commit.sha, file)) {
      const claim = await this.#claim(cache);
      try {
        await this.#fetchBlob(commit, file, cache, () => {});
        await cache.link(commit.sha, file);
      } finally {
        await claim.release();
      }
    }
    return readFileSync(join(cache.snapshot(commit.sha), file.path), "utf8");
  }

  /** Small files first: what is wrong with a model shows before its weights are here. */
  async #fetchAll(commit: HubCommit, files: readonly HubFile[], cache: RepoCache, name: string): Promise<void> {
    // Files with the same content are one blob.
    const contents = [...new Map(files.map((file) => [file.hash, file])).values()];
    const waiting = contents.toSorted((a, b) => a.size - b.size);
    const totalBytes = contents.reduce((sum, { size }) => sum + size, 0);
    let doneBytes = 0;
    const onBytes = (count: number) => {
      doneBytes += count;
      this.#options.onProgress?.({ name, doneBytes, totalBytes });
    };
    const work = async () => {
      for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
        await this.#fetchBlob(commit, file, cache, onBytes);
      }
    };
    const workers = Array.from({ length: Math.min(MAX_FETCHING, files.length) }, work);
    // All of them end before an error is passed on, so that nothing goes on behind the caller's back.
    const failed = (await Promise.allSettled(workers)).find((result) => result.status === "rejected");
    if (failed !== undefined) throw failed.reason;
    await Promise.all(files.map((file) => cache.link(commit.sha, file)));
  }

  async #fetchBlob(
    commit: HubCommit,
    file: HubFile,
    cache: RepoCache,
    onBytes: (count: number) => void,
  ): Promise<void> {
    if (existsSync(cache.blob(file))) onBytes(file.size);
    else await downloadFile(this.#client, commit, file, cache.blob(file), onBytes);
  }

  /** Waits until nobody else writes into the cache of a repository. */
  async #claim(cache: RepoCache): Promise<FolderClaim> {
    const folder = join(this.#settings.cacheFolder, ".locks", "reroll", basename(cache.folder));
    mkdirSync(folder, { recursive: true });
    for (;;) {
      try {
        return await claimFolder(folder);
      } catch (cause) {
        if (!(cause instanceof RerollError && cause.code === "RUN_ACTIVE")) throw cause;
        await wait(LOOK_AGAIN_MS);
      }
    }
  }
}

/** The part of a repository that a name speaks of. */
interface Scope {
  /** The path in the repository of a path within the part. */
  full(path: string): string;
  /** Where the part lies in a snapshot. */
  path(snapshot: string): string;
  choose(choose: ChooseFiles, readText: (path: string) => Promise<string | null>): Promise<readonly string[]>;
}

function scopeOf(name: HubName, paths: readonly string[]): Scope {
  const { file } = name;
  if (file === null) {
    return {
      full: (path) => path,
      path: (snapshot) => snapshot,
      choose: (choose, readText) => choose(paths, readText),
    };
  }
  if (paths.includes(file))
    return { full: () => file, path: (snapshot) => join(snapshot, file), choose: async () => [file] };
  const inside = paths.flatMap((path) => (path.startsWith(`${file}/`) ? [path.slice(file.length + 1)] : []));
  if (inside.length === 0) throw noSuchFile(name, paths);
  return {
    full: (path) => `${file}/${path}`,
    path: (snapshot) => join(snapshot, file),
    choose: (choose, readText) => choose(inside, readText),
  };
}

async function lookInCache(
  kind: RepoKind,
  name: HubName,
  cache: RepoCache,
  sha: string,
  choose: ChooseFiles,
  note: string | null,
): Promise<HubFinding> {
  const snapshot = cache.snapshot(sha);
  const within = scopeOf(name, cache.filesOf(sha));
  const readText = async (path: string) => {
    const file = join(snapshot, within.full(path));
    return existsSync(file) ? readFileSync(file, "utf8") : null;
  };
  const needed = await within.choose(choose, readText);
  return { kind, name, sha, path: within.path(snapshot), needed, missing: [], missingBytes: 0, note };
}

async function expectRoom(cache: RepoCache, files: readonly HubFile[]): Promise<void> {
  const needed = files.reduce((sum, { size }) => sum + size, 0);
  mkdirSync(join(cache.folder, "blobs"), { recursive: true });
  const { bavail, bsize } = await statfs(cache.folder);
  if (bavail * bsize < needed) throw diskFull(join(dirname(cache.folder), "x"), needed);
}

function offline(kind: RepoKind, name: HubName, cacheFolder: string): RerollError {
  const what = kind === "model" ? "model" : "data set";
  return new RerollError(
    "HUB_UNREACHABLE",
    `The ${what} ${showHubName(name)} is not in ${cacheFolder}, and HF_HUB_OFFLINE forbids to fetch it. Fetch it where there is a network, or unset HF_HUB_OFFLINE.`,
    { repo: name.repo },
  );
}

function noSuchFile(name: HubName, paths: readonly string[]): RerollError {
  const shown = paths.slice(0, 20).join(", ");
  return new RerollError(
    "HUB_NOT_FOUND",
    `${name.repo} has no ${name.file}. It has: ${shown}${paths.length > 20 ? ", ..." : ""}.`,
    { repo: name.repo, file: name.file },
  );
}
