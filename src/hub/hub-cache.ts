/**
 * The cache that all of Hugging Face's tools share: a folder for each repository, with the content of files in `blobs` under their
 * hashes, a tree of links to them for each commit in `snapshots`, and the commits of branches in `refs`.
 */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import type { HubCommit, HubFile } from "./hub-client.ts";
import type { RepoKind } from "./hub-name.ts";

/** The files of one repository. */
export class RepoCache {
  readonly folder: string;

  constructor(cacheFolder: string, kind: RepoKind, repo: string) {
    this.folder = join(cacheFolder, `${kind}s--${repo.replace("/", "--")}`);
  }

  blob({ hash }: HubFile): string {
    return join(this.folder, "blobs", hash);
  }

  snapshot(sha: string): string {
    return join(this.folder, "snapshots", sha);
  }

  /** The commit that a revision was at when it was last looked up; null where nothing of it is here. */
  knownCommit(revision: string): string | null {
    const ref = join(this.folder, "refs", revision);
    const sha = existsSync(ref) ? readFileSync(ref, "utf8").trim() : revision;
    return /^[0-9a-f]{40}$/.test(sha) && existsSync(this.snapshot(sha)) ? sha : null;
  }

  /** The files of a commit that are here. */
  filesOf(sha: string): string[] {
    const root = this.snapshot(sha);
    return readdirSync(root, { recursive: true, withFileTypes: true })
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile())
      .map((path) => relative(root, path).split(sep).join("/"))
      .sort();
  }

  has(sha: string, { path, size }: HubFile): boolean {
    return statSync(join(this.snapshot(sha), path), { throwIfNoEntry: false })?.size === size;
  }

  /** Gives a blob its name in a snapshot. */
  async link(sha: string, file: HubFile): Promise<void> {
    const place = join(this.snapshot(sha), file.path);
    await mkdir(dirname(place), { recursive: true });
    await rm(place, { force: true });
    await symlink(relative(dirname(place), this.blob(file)), place).catch((cause: NodeJS.ErrnoException) => {
      // Another process was faster.
      if (cause.code !== "EEXIST") throw cause;
    });
  }

  /** Remembers where a revision is, for when the Hub cannot be asked. A commit needs no such note. */
  async note(revision: string, { sha }: HubCommit): Promise<void> {
    if (revision === sha) return;
    const ref = join(this.folder, "refs", revision);
    await mkdir(dirname(ref), { recursive: true });
    await writeFile(ref, sha);
  }
}

/** Where a file of the cache comes from. */
interface Origin {
  readonly kind: RepoKind;
  readonly repo: string;
  readonly sha: string;
}

const SNAPSHOT = /(?:^|[\\/])(model|dataset)s--([\w.-]+?)--([\w.-]+)[\\/]+snapshots[\\/]+([0-9a-f]{40})(?![0-9a-f])/;

/** The repository and commit that a folder of the cache belongs to; null for a path from elsewhere. */
export function snapshotOrigin(path: string): Origin | null {
  const found = SNAPSHOT.exec(path);
  return found === null ? null : originOf(found);
}

/** A path as people know it: by its name on the Hub where it was fetched from there. */
export function nameOfPath(path: string): string {
  const origin = snapshotOrigin(path);
  return origin === null ? path : `${origin.repo}@${origin.sha.slice(0, 8)}`;
}

/** The commits of all snapshots whose paths are in a text, by repository. */
export function snapshotsNamedIn(text: string): Map<string, string> {
  const found = [...text.matchAll(new RegExp(SNAPSHOT, "g"))].map(originOf);
  return new Map(found.map(({ repo, sha }) => [repo, sha]));
}

function originOf([, kind = "", owner, name, sha = ""]: readonly string[]): Origin {
  return { kind: kind as RepoKind, repo: `${owner}/${name}`, sha };
}
