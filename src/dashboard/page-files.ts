/**
 * The page itself: what `scripts/setup.mjs` built from `dashboard/`, read once and kept.
 *
 * Only files that were there at the start are served, by their names; no path of a request reaches the disk.
 */
import { readdirSync, readFileSync } from "node:fs";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { FastifyInstance } from "fastify";
import { RerollError } from "../errors/reroll-error.ts";

/** The built page, seen from `src/dashboard` and from `dist/dashboard` alike. */
const BUILT = fileURLToPath(new URL("../../dist/dashboard/app/", import.meta.url));

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Adds `/` and the files that it needs. */
export function addPage(app: FastifyInstance, folder = BUILT): void {
  for (const name of listPage(folder)) {
    const bytes = gzipSync(readFileSync(`${folder}/${name}`));
    const isPage = name === "index.html";
    app.get(isPage ? "/" : `/${name}`, async (_, reply) =>
      reply
        .type(TYPES[extname(name)] ?? "application/octet-stream")
        .header("content-encoding", "gzip")
        // The names of all others change with their contents.
        .header("cache-control", isPage ? "no-cache" : "max-age=31536000, immutable")
        .send(bytes),
    );
  }
}

/** The files of the page by their names. */
export function readPage(folder = BUILT): ReadonlyMap<string, string> {
  return new Map(listPage(folder).map((name) => [name, readFileSync(`${folder}/${name}`, "utf8")]));
}

function listPage(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (cause) {
    throw new RerollError(
      "DASHBOARD_NOT_BUILT",
      `The page of the dashboard is not built: ${folder} cannot be read. Run npm run setup.`,
      { folder },
      { cause },
    );
  }
}
