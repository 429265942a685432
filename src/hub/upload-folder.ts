/**
 * A folder as one commit of a repository on the Hub: small files within the commit, large ones through LFS, as the Hub itself decides.
 *
 * What the Hub has already is not sent again, and nothing shows on the Hub before the commit at the end.
 */
import { createHash } from "node:crypto";
import { createReadStream, openAsBlob } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { pipeline } from "node:stream/promises";
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import { HubClient } from "./hub-client.ts";
import { type HubName, showHubName } from "./hub-name.ts";
import type { HubSettings } from "./hub-settings.ts";

interface UploadOptions {
  readonly folder: string;
  readonly name: HubName;
  /** Whether a repository that is made now can be seen by others. */
  readonly isPrivate: boolean;
  /** The first line of the commit. */
  readonly summary: string;
  readonly report?: (line: string) => void;
  readonly retryDelaysMs?: readonly number[];
}

interface LocalFile {
  /** In the repository. */
  readonly path: string;
  readonly place: string;
  readonly size: number;
}

/** Makes the repository where there is none. Out: the address of its page. */
export async function uploadFolder(settings: HubSettings, options: UploadOptions): Promise<string> {
  const { name, folder, summary, isPrivate, report = () => {} } = options;
  if (settings.isOffline || settings.token === null) throw cannotPush(name, settings);
  const upload = new Upload(new HubClient(settings, options.retryDelaysMs), name);
  await upload.createRepo(isPrivate);
  const files = await listFiles(folder);
  const large = await upload.chooseLarge(files);
  const sent = new Map<string, string>();
  for (const file of files.filter(({ path }) => large.has(path))) {
    report(`Sending ${file.path} (${(file.size / 1e6).toFixed(1)} MB)`);
    sent.set(file.path, await upload.sendLarge(file));
  }
  await upload.commit(files, sent, summary);
  return `${settings.endpoint}/${name.repo}`;
}

/** The requests of one upload. */
class Upload {
  readonly #client: HubClient;
  readonly #name: HubName;

  constructor(client: HubClient, name: HubName) {
    this.#client = client;
    this.#name = name;
  }

  async createRepo(isPrivate: boolean): Promise<void> {
    const [organization, name] = this.#name.repo.split("/");
    await this.#post("/api/repos/create", { type: "model", organization, name, private: isPrivate }).catch((cause) => {
      // It is there already, which is as good.
      if (!(cause instanceof RerollError && cause.details.status === 409)) throw cause;
    });
  }

  /** The paths of the files that go through LFS. The Hub looks at sizes, first bytes and .gitattributes. */
  async chooseLarge(files: readonly LocalFile[]): Promise<ReadonlySet<string>> {
    const samples = await Promise.all(
      files.map(async ({ path, place, size }) => ({
        path,
        size,
        sample: (await firstBytes(place)).toString("base64"),
      })),
    );
    const answer = await this.#post(`/api/models/${this.#name.repo}/preupload/${this.#revision}`, { files: samples });
    const parsed = preupload.parse(await answer.json());
    return new Set(parsed.files.flatMap(({ path, uploadMode }) => (uploadMode === "lfs" ? [path] : [])));
  }

  /** Sends a large file, unless the Hub has its content already. Out: its SHA-256. */
  async sendLarge({ place, size }: LocalFile): Promise<string> {
    const hash = createHash("sha256");
    await pipeline(createReadStream(place, { highWaterMark: 1 << 20 }), hash);
    const oid = hash.digest("hex");
    const answer = await this.#post(
      `/${this.#name.repo}.git/info/lfs/objects/batch`,
      { operation: "upload", transfers: ["basic", "multipart"], hash_algo: "sha256", objects: [{ oid, size }] },
      { accept: "application/vnd.git-lfs+json", "content-type": "application/vnd.git-lfs+json" },
    );
    const [object] = lfsBatch.parse(await answer.json()).objects;
    if (object?.error !== undefined)
      throw new RerollError("HUB_REFUSED", `The Hub takes no ${place}: ${object.error.message}.`);
    const { upload, verify } = object?.actions ?? {};
    if (upload !== undefined) await this.#sendBytes(await openAsBlob(place), oid, upload);
    if (verify !== undefined) await this.#post(verify.href, { oid, size }, verify.header);
    return oid;
  }

  async commit(files: readonly LocalFile[], sent: ReadonlyMap<string, string>, summary: string): Promise<void> {
    const lines: object[] = [{ key: "header", value: { summary, description: "" } }];
    for (const { path, place, size } of files) {
      const oid = sent.get(path);
      lines.push(
        oid === undefined
          ? { key: "file", value: { path, encoding: "base64", content: (await readFile(place)).toString("base64") } }
          : { key: "lfsFile", value: { path, algo: "sha256", oid, size } },
      );
    }
    const body = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
    const headers = { "content-type": "application/x-ndjson" };
    const route = `/api/models/${this.#name.repo}/commit/${this.#revision}`;
    await this.#client.request(route, this.#subject, { method: "POST", headers, body });
  }

  /** In one piece, or in the pieces that the answer has addresses for. */
  async #sendBytes(blob: Blob, oid: string, { href, header = {} }: LfsAction): Promise<void> {
    const { chunk_size, ...others } = header;
    if (chunk_size === undefined) {
      await this.#client.request(href, this.#subject, { method: "PUT", headers: others, body: blob });
      return;
    }
    const step = Number(chunk_size);
    const parts = [];
    const numbered = Object.entries(others).filter(([number]) => /^\d+$/.test(number));
    for (const [number, url] of numbered.sort(([a], [b]) => Number(a) - Number(b))) {
      const start = (Number(number) - 1) * step;
      const sent = await this.#client.request(url, this.#subject, {
        method: "PUT",
        body: blob.slice(start, start + step),
      });
      parts.push({ partNumber: Number(number), etag: sent.headers.get("etag") });
    }
    await this.#post(href, { oid, parts });
  }

  #post(route: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    const init = { method: "POST", headers: { "content-type": "application/json", ...headers } };
    return this.#client.request(route, this.#subject, { ...init, body: JSON.stringify(body) });
  }

  get #revision(): string {
    return encodeURIComponent(this.#name.revision);
  }

  get #subject() {
    return { kind: "model" as const, repo: this.#name.repo, revision: this.#name.revision };
  }
}

const preupload = z.object({
  files: z.array(z.looseObject({ path: z.string(), uploadMode: z.enum(["lfs", "regular"]) })),
});
const lfsAction = z.looseObject({ href: z.string(), header: z.record(z.string(), z.string()).optional() });
type LfsAction = z.infer<typeof lfsAction>;
const lfsBatch = z.object({
  objects: z.array(
    z.looseObject({
      actions: z.looseObject({ upload: lfsAction.optional(), verify: lfsAction.optional() }).optional(),
      error: z.looseObject({ message: z.string() }).optional(),
    }),
  ),
});

async function listFiles(folder: string): Promise<LocalFile[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const places = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const files = places.map(async (place) => ({
    path: relative(folder, place).split(sep).join("/"),
    place,
    size: (await stat(place)).size,
  }));
  return (await Promise.all(files)).sort((a, b) => (a.path < b.path ? -1 : 1));
}

async function firstBytes(place: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of createReadStream(place, { end: 511 })) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function cannotPush(name: HubName, { isOffline }: HubSettings): RerollError {
  return new RerollError(
    isOffline ? "HUB_UNREACHABLE" : "MISSING_KEY",
    isOffline
      ? `${showHubName(name)} cannot be written: HF_HUB_OFFLINE is set. Unset it.`
      : `${showHubName(name)} is written with a token, and there is none. Set HF_TOKEN to one that may write.`,
  );
}
