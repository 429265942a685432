/**
 * The routes of the Hub, as its documentation describes them: what a repository holds, and the bytes of a file.
 *
 * A request that fails on the way, or that a busy server turns down, is made again a few times. What comes back is checked; what cannot
 * be had is an error that says why and what to do. The token goes to the Hub alone: `fetch` drops it where a file is fetched elsewhere.
 */
import { setTimeout as wait } from "node:timers/promises";
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import type { RepoKind } from "./hub-name.ts";
import type { HubSettings } from "./hub-settings.ts";

/** A file of a repository. */
export interface HubFile {
  readonly path: string;
  readonly size: number;
  /** What the cache calls its content: the SHA-256 of a large file, the git hash of a small one. */
  readonly hash: string;
  readonly isLarge: boolean;
}

/** One commit of a repository. */
export interface HubCommit {
  readonly kind: RepoKind;
  readonly repo: string;
  readonly sha: string;
  readonly files: readonly HubFile[];
}

/** What a request is about, for its errors. */
interface Subject {
  readonly kind: RepoKind;
  readonly repo: string;
  readonly revision: string;
}

/** Milliseconds before each further attempt. */
const DELAYS_MS: readonly number[] = [500, 2000, 8000];
/** A server that says nothing for so long is taken for lost. */
const SILENCE_MS = 30_000;
/** An upload that is slower than 100 kB/s is taken for lost too. */
const SLOWEST_BYTES_PER_MS = 100;

export class HubClient {
  readonly settings: HubSettings;
  readonly #delaysMs: readonly number[];

  constructor(settings: HubSettings, delaysMs: readonly number[] = DELAYS_MS) {
    this.settings = settings;
    this.#delaysMs = delaysMs;
  }

  /** The files of a repository at a branch, tag or commit. */
  async commit(kind: RepoKind, repo: string, revision: string): Promise<HubCommit> {
    const subject = { kind, repo, revision };
    const route = `/api/${kind}s/${repo}/revision/${encodeURIComponent(revision)}?blobs=true`;
    const parsed = repoInfo.safeParse(await (await this.request(route, subject)).json().catch(() => null));
    if (!parsed.success) {
      throw new RerollError(
        "HUB_UNREACHABLE",
        `${this.settings.endpoint} does not answer as the Hub does: ${z.prettifyError(parsed.error)}. Check HF_ENDPOINT.`,
      );
    }
    const files = parsed.data.siblings.map(({ rfilename: path, size, blobId, lfs }) => ({
      path,
      size: lfs?.size ?? size,
      hash: lfs?.sha256 ?? blobId,
      isLarge: lfs !== undefined && lfs !== null,
    }));
    return { kind, repo, sha: parsed.data.sha, files: files.filter(({ path }) => isSafe(path)) };
  }

  /** The bytes of a file from `start` on. `isPartial` is false where the server sends all of it. */
  async open({ kind, repo, sha }: HubCommit, path: string, start: number, signal: AbortSignal) {
    const base = kind === "model" ? repo : `datasets/${repo}`;
    const route = `/${base}/resolve/${sha}/${path.split("/").map(encodeURIComponent).join("/")}`;
    const headers = start === 0 ? {} : { range: `bytes=${start}-` };
    const response = await this.request(route, { kind, repo, revision: sha }, { headers, signal });
    return { body: response.body, isPartial: response.status === 206 };
  }

  /** A request with a token, made again where that may help. Throws for every answer that is no success. */
  async request(route: string, subject: Subject, init: RequestInit = {}): Promise<Response> {
    const { endpoint, token } = this.settings;
    const url = route.startsWith("/") ? `${endpoint}${route}` : route;
    const headers = new Headers(init.headers);
    // An address that comes with a key of its own is asked with that one.
    if (url.startsWith(`${endpoint}/`) && token !== null && !headers.has("authorization"))
      headers.set("authorization", `Bearer ${token.reveal()}`);
    const response = await this.#send(url, { ...init, headers }, subject);
    if (response.ok) return response;
    const text = (await response.text().catch(() => "")).slice(0, 500);
    throw refusal(response, text, subject, this.settings);
  }

  async #send(url: string, init: RequestInit, subject: Subject): Promise<Response> {
    for (let attempt = 0; ; attempt++) {
      const delay = this.#delaysMs[attempt];
      try {
        const { signal, release } = silenceLimit(init);
        const response = await fetch(url, { ...init, signal }).finally(release);
        if ((response.status < 500 && response.status !== 429) || delay === undefined) return response;
        await response.body?.cancel();
      } catch (cause) {
        if (init.signal?.aborted) throw cause;
        // A host that does not exist does not come up in a few seconds.
        if (delay === undefined || codeOf(cause) === "ENOTFOUND")
          throw unreachable(this.settings.endpoint, subject, cause);
      }
      await wait(delay);
    }
  }
}

/** Ends a request whose answer does not begin in time. What is sent along takes time of its own. */
function silenceLimit({ signal: given, body }: RequestInit) {
  const sentBytes = body instanceof Blob ? body.size : typeof body === "string" ? body.length : 0;
  const limitMs = SILENCE_MS + sentBytes / SLOWEST_BYTES_PER_MS;
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(new Error(`no answer for ${Math.round(limitMs / 1000)} s`)), limitMs);
  const signal = given == null ? silence.signal : AbortSignal.any([given, silence.signal]);
  return { signal, release: () => clearTimeout(timer) };
}

const repoInfo = z.looseObject({
  sha: z.string().regex(/^[0-9a-f]{40}$/),
  siblings: z.array(
    z.looseObject({
      rfilename: z.string().min(1),
      size: z.int().min(0),
      blobId: z.string().regex(/^[0-9a-f]{40}$/),
      lfs: z.looseObject({ sha256: z.string().regex(/^[0-9a-f]{64}$/), size: z.int().min(0) }).nullish(),
    }),
  ),
});

/** A name that stays within the folder of its repository. */
function isSafe(path: string): boolean {
  return !path.startsWith("/") && !path.includes("\\") && !path.split("/").some((part) => part === ".." || part === "");
}

/** The error for what the Hub refuses, by the code in its headers. */
function refusal(response: Response, text: string, subject: Subject, { endpoint, token }: HubSettings): RerollError {
  const { kind, repo, revision } = subject;
  const { status, headers } = response;
  const code = headers.get("x-error-code");
  const what = kind === "model" ? "model" : "data set";
  const page = `${endpoint}/${kind === "model" ? "" : "datasets/"}${repo}`;
  const details = { repo, revision, status, code };
  if (code === "GatedRepo") {
    const why = token === null ? "and no token is set: set HF_TOKEN" : "and the token's account has not been let in";
    return new RerollError(
      "HUB_REFUSED",
      `The ${what} ${repo} is gated, ${why}. Ask for access at ${page}, then try again.`,
      details,
    );
  }
  if (code === "RevisionNotFound")
    return new RerollError(
      "HUB_NOT_FOUND",
      `The ${what} ${repo} has no revision ${JSON.stringify(revision)}.`,
      details,
    );
  if (code === "RepoNotFound" || (code === null && status === 404)) {
    const advice =
      token === null
        ? "Check the name; if it is private, set HF_TOKEN."
        : "Check the name, and that the account of the token may see it.";
    return new RerollError("HUB_NOT_FOUND", `${endpoint} shows no ${what} ${repo}. ${advice}`, details);
  }
  if (status === 401 || status === 403) {
    const why =
      token === null ? "no token is set: set HF_TOKEN" : "the token is wrong, has expired, or may not do this";
    return new RerollError("HUB_REFUSED", `${endpoint} refused ${repo} (${status}): ${why}.`, details);
  }
  const said = headers.get("x-error-message") ?? text;
  return new RerollError(
    "HUB_UNREACHABLE",
    `${endpoint} answered ${status} for ${repo}: ${said || "nothing more"}.`,
    details,
  );
}

function codeOf(cause: unknown): unknown {
  return cause instanceof Error ? (cause.cause as NodeJS.ErrnoException | undefined)?.code : undefined;
}

function unreachable(endpoint: string, { repo }: Subject, cause: unknown): RerollError {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  const reason =
    inner instanceof Error ? inner.message || String((inner as NodeJS.ErrnoException).code) : String(inner);
  return new RerollError(
    "HUB_UNREACHABLE",
    `${endpoint} cannot be reached for ${repo}: ${reason}. Check the network and HF_ENDPOINT.`,
    { repo, endpoint },
    { cause },
  );
}
