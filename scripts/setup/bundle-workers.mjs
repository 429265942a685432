/**
 * Bundles the modules that threads and processes of ours begin with: each of them imports hundreds, and loading them one by one takes
 * three times as long as loading a few large files. `src/workers/own-module.ts` finds what is written here.
 */
import { cpSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, relative } from "node:path";

/** They import most of the package and nothing of a user's, whose code would see two copies of what it shares with them. */
const WORKERS = [
  "generation/local/engine-rank-worker",
  "generation/local/engine-worker",
  "rewards/reward-model/reward-model-worker",
  "run/checkpoint-writer-worker",
  "run/engine-process",
  "run/engine-rank-process",
  "training/roles/role-worker",
  "training/trainer-worker",
  "training/tuning-worker",
];

/** A package of many files that every worker loads, and that becomes part of the bundles; with its license. All others stay outside. */
const INSIDE = "zod";

/** Removes the bundles, so that none is older than what is compiled. */
export function removeBundles(root) {
  rmSync(join(root, "dist/bundled"), { recursive: true, force: true });
}

/** In: a compiled dist. Out: dist/bundled. */
export async function bundleWorkers(root) {
  const { build } = await import("esbuild");
  const dist = join(root, "dist");
  removeBundles(root);
  await build({
    entryPoints: WORKERS.map((worker) => ({ in: join(dist, `${worker}.js`), out: basename(worker) })),
    outdir: join(dist, "bundled"),
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node20",
    logLevel: "warning",
    plugins: [packagesOutside(dist), keepPlaces(dist)],
  });
  const inside = dirname(createRequire(join(root, "package.json")).resolve(`${INSIDE}/package.json`));
  cpSync(join(inside, "LICENSE"), join(dist, "bundled", `LICENSE.${INSIDE}`));
}

function packagesOutside(dist) {
  return {
    name: "packages-outside",
    setup: ({ onResolve }) =>
      onResolve({ filter: /^[^./]/ }, ({ path, importer }) =>
        path !== INSIDE && importer.startsWith(dist) ? { path, external: true } : undefined,
      ),
  };
}

/**
 * A module finds files and workers beside it, also when it is no longer there itself. And it imports the names of what comes inside one by
 * one: all of it under one name would be taken in whole.
 */
function keepPlaces(dist) {
  const place = (file) => `new URL(${JSON.stringify(`../${relative(dist, file)}`)}, import.meta.url).href`;
  const rewrite = (file) =>
    readFileSync(file, "utf8")
      .replaceAll("import.meta.url", place(file))
      .replace('import { z } from "zod"', 'import * as z from "zod"');
  return {
    name: "keep-places",
    setup: ({ onLoad }) =>
      onLoad({ filter: /\.js$/ }, ({ path }) => (path.startsWith(dist) ? { contents: rewrite(path) } : undefined)),
  };
}
