/**
 * A Hub on this machine, for tests: repositories in memory behind the routes of the real one, as its documentation and its clients
 * describe them. Large files are delivered from another host name, as the real one does, and downloads can be cut.
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

/** Files of at least so many bytes go through LFS. */
const LARGE_BYTES = 4096;

export interface TestRepo {
  readonly files: Map<string, Buffer>;
  isPrivate?: boolean;
  isGated?: boolean;
}

export class TestHub {
  /** By kind and name, as in `models/owner/name`. */
  readonly repos = new Map<string, TestRepo>();
  /** Tokens that may read and write. */
  readonly tokens = new Set<string>();
  /** What was asked, as in `GET /api/models/...`, with the range that was wanted. */
  readonly requests: { readonly line: string; readonly range: string | undefined; readonly hasToken: boolean }[] = [];
  /** Paths whose next download ends after so many bytes. */
  readonly cuts = new Map<string, number>();
  /** Paths whose next download has a flipped byte. */
  readonly damages = new Set<string>();
  readonly #server = createServer((request, response) => {
    this.#answer(request, response).catch((cause) => response.writeHead(500).end(String(cause)));
  });

  static async start(): Promise<TestHub> {
    const hub = new TestHub();
    await new Promise<void>((resolve) => hub.#server.listen(0, "127.0.0.1", resolve));
    return hub;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  add(
    name: string,
    files: Readonly<Record<string, string | Uint8Array>>,
    more: Omit<TestRepo, "files"> = {},
  ): TestRepo {
    const entries = Object.entries(files).map(([path, content]) => [path, Buffer.from(content as string)] as const);
    const repo = { files: new Map(entries), ...more };
    this.repos.set(name, repo);
    return repo;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
    const { pathname } = new URL(request.url ?? "", this.endpoint);
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1];
    const line = `${request.method} ${pathname}`;
    this.requests.push({ line, range: request.headers.range, hasToken: token !== undefined });
    const body = await buffer(request);
    if (token !== undefined && !this.tokens.has(token)) return fail(response, 401, null, "Invalid credentials");
    const upload = /^PUT \/upload\/([0-9a-f]{64})(?:\/(\d+))?$/.exec(line);
    if (upload !== null) return this.#take(upload[1]!, upload[2], body, response);
    const stored = /^GET \/cdn\/([0-9a-f]{64})\/(.+)$/.exec(line);
    if (stored !== null) return this.#deliver(this.#blobs.get(stored[1]!)!, stored[2]!, request, response);
    if (request.method === "POST") return this.#write(pathname, body, token, response);
    const info = /^\/api\/(models|datasets)\/([^/]+\/[^/]+)\/revision\/(.+)$/.exec(pathname);
    if (info !== null) return this.#info(`${info[1]}/${info[2]}`, decodeURIComponent(info[3]!), token, response);
    const file = /^\/(datasets\/)?([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(pathname);
    if (file === null) return fail(response, 404, null, "no such route");
    const name = `${file[1] ?? "models/"}${file[2]}`;
    const repo = this.#visible(name, token, response);
    if (repo === null) return undefined;
    const path = decodeURIComponent(file[4]!);
    const content = repo.files.get(path);
    if (content === undefined) return fail(response, 404, "EntryNotFound", "no such file");
    const hash = content.byteLength < LARGE_BYTES ? gitHash(content) : sha256(content);
    response.setHeader("x-repo-commit", commitOf(repo)).setHeader("etag", `"${hash}"`);
    if (request.method === "HEAD") return response.writeHead(200, { "content-length": content.byteLength }).end();
    if (content.byteLength < LARGE_BYTES) return this.#deliver(content, path, request, response);
    const oid = sha256(content);
    this.#blobs.set(oid, content);
    return response.writeHead(302, { location: `http://localhost:${this.port}/cdn/${oid}/${path}` }).end();
  }

  readonly #blobs = new Map<string, Buffer>();
  readonly #parts = new Map<string, Buffer[]>();

  #visible(name: string, token: string | undefined, response: ServerResponse): TestRepo | null {
    const repo = this.repos.get(name);
    if (repo === undefined || (repo.isPrivate === true && token === undefined)) {
      fail(response, token === undefined ? 401 : 404, "RepoNotFound", "Repository not found");
      return null;
    }
    if (repo.isGated !== true || token !== undefined) return repo;
    fail(response, 401, "GatedRepo", "Access to it is restricted");
    return null;
  }

  #info(name: string, revision: string, token: string | undefined, response: ServerResponse): unknown {
    const repo = this.#visible(name, token, response);
    if (repo === null) return undefined;
    const sha = commitOf(repo);
    if (revision !== "main" && revision !== sha) return fail(response, 404, "RevisionNotFound", "Invalid rev id");
    const siblings = [...repo.files].map(([rfilename, content]) => ({
      rfilename,
      size: content.byteLength,
      blobId: gitHash(content),
      ...(content.byteLength >= LARGE_BYTES && {
        lfs: { sha256: sha256(content), size: content.byteLength, pointerSize: 130 },
      }),
    }));
    return json(response, { id: name.slice(name.indexOf("/") + 1), sha, siblings });
  }

  #deliver(content: Buffer, path: string, request: IncomingMessage, response: ServerResponse): unknown {
    const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
    const cut = this.cuts.get(path);
    this.cuts.delete(path);
    const whole = this.damages.delete(path)
      ? Buffer.from(content.map((byte, i) => (i === 7 ? byte ^ 1 : byte)))
      : content;
    response.writeHead(start > 0 ? 206 : 200, { "content-length": content.byteLength - start });
    if (cut === undefined) return response.end(whole.subarray(start));
    return response.write(whole.subarray(start, start + cut), () => response.destroy());
  }

  #take(oid: string, part: string | undefined, body: Buffer, response: ServerResponse): unknown {
    if (part !== undefined) {
      const parts = this.#parts.get(oid) ?? [];
      parts[Number(part) - 1] = body;
      this.#parts.set(oid, parts);
      return response.writeHead(200, { etag: `"${part}"` }).end();
    }
    if (sha256(body) !== oid) return fail(response, 400, null, "wrong hash");
    this.#blobs.set(oid, body);
    return response.writeHead(200).end();
  }

  #write(pathname: string, body: Buffer, token: string | undefined, response: ServerResponse): unknown {
    if (token === undefined) return fail(response, 401, null, "log in first");
    const action =
      /^\/(?:api\/models\/)?([^/]+\/[^/]+?)(?:\.git)?\/(preupload|commit|info\/lfs\/objects\/batch|complete|verify)/.exec(
        pathname,
      );
    if (pathname === "/api/repos/create") {
      const { organization, name, private: isPrivate } = JSON.parse(String(body));
      const key = `models/${organization}/${name}`;
      if (this.repos.has(key)) return fail(response, 409, null, "You already created this model repo");
      this.repos.set(key, { files: new Map(), isPrivate });
      return json(response, { url: `${this.endpoint}/${organization}/${name}` });
    }
    const repo = this.repos.get(`models/${action?.[1]}`);
    if (repo === undefined) return fail(response, 404, "RepoNotFound", "Repository not found");
    switch (action?.[2]) {
      case "preupload": {
        const { files } = JSON.parse(String(body)) as { files: { path: string; size: number }[] };
        const mode = (size: number) => (size >= LARGE_BYTES ? "lfs" : "regular");
        return json(response, { files: files.map(({ path, size }) => ({ path, uploadMode: mode(size) })) });
      }
      case "info/lfs/objects/batch": {
        const { objects } = JSON.parse(String(body)) as { objects: { oid: string; size: number }[] };
        return json(response, { objects: objects.map((object) => this.#lfsObject(object, action[1]!)) });
      }
      case "complete": {
        const { oid } = JSON.parse(String(body)) as { oid: string };
        const whole = Buffer.concat(this.#parts.get(oid) ?? []);
        if (sha256(whole) !== oid) return fail(response, 400, null, "wrong hash");
        this.#blobs.set(oid, whole);
        return json(response, {});
      }
      case "verify":
        return this.#blobs.has((JSON.parse(String(body)) as { oid: string }).oid)
          ? json(response, {})
          : fail(response, 404, null, "no such object");
      default:
        return this.#commit(repo, String(body), response);
    }
  }

  /** Files of several megabytes are sent in parts, as the real one wants of larger ones. */
  #lfsObject({ oid, size }: { oid: string; size: number }, repo: string): object {
    if (this.#blobs.has(oid)) return { oid, size };
    const base = `http://localhost:${this.port}/upload/${oid}`;
    const chunk = 200_000;
    const numbers = Array.from({ length: Math.ceil(size / chunk) }, (_, i) => String(i + 1).padStart(5, "0"));
    const urls = Object.fromEntries(numbers.map((number) => [number, `${base}/${Number(number)}`]));
    const verify = { href: `${this.endpoint}/${repo}/verify`, header: {} };
    const upload =
      numbers.length === 1
        ? { href: base }
        : { href: `${this.endpoint}/${repo}/complete`, header: { chunk_size: String(chunk), ...urls } };
    return { oid, size, actions: { upload, verify } };
  }

  #commit(repo: TestRepo, body: string, response: ServerResponse): unknown {
    for (const line of body.trim().split("\n")) {
      const { key, value } = JSON.parse(line) as { key: string; value: Record<string, string> };
      if (key === "file") repo.files.set(value.path!, Buffer.from(value.content!, "base64"));
      if (key === "lfsFile") {
        const content = this.#blobs.get(value.oid!);
        if (content === undefined) return fail(response, 400, null, `no object ${value.oid}`);
        repo.files.set(value.path!, content);
      }
    }
    return json(response, { commitOid: commitOf(repo) });
  }
}

/** The commit follows from the content. */
export function commitOf({ files }: TestRepo): string {
  const hash = createHash("sha1");
  for (const [path, content] of files) hash.update(path).update(content);
  return hash.digest("hex");
}

function sha256(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}

function gitHash(content: Buffer): string {
  return createHash("sha1").update(`blob ${content.byteLength}\0`).update(content).digest("hex");
}

function json(response: ServerResponse, value: object): unknown {
  return response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
}

function fail(response: ServerResponse, status: number, code: string | null, message: string): unknown {
  return response
    .writeHead(status, { ...(code !== null && { "x-error-code": code }), "x-error-message": message })
    .end(JSON.stringify({ error: message }));
}
