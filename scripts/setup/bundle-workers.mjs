/**
 * Bundles the modules that threads and processes of ours begin with: each of them imports hundreds, and loading them one by one takes
 * three times as long as loading a few large files. `src/workers/own-module.ts` finds what is written here.
 */
import { readFileSync, rmSync } from "node:fs";
import { basename, join, relative } from "node:path";

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
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
    logLevel: "warning",
    plugins: [keepPlaces(dist)],
  });
}

/** A module finds files and workers beside it, also when it is no longer there itself. */
function keepPlaces(dist) {
  const place = (file) => `new URL(${JSON.stringify(`../${relative(dist, file)}`)}, import.meta.url).href`;
  return {
    name: "keep-places",
    setup: ({ onLoad }) =>
      onLoad({ filter: /\.js$/ }, ({ path }) => ({
        contents: readFileSync(path, "utf8").replaceAll("import.meta.url", place(path)),
      })),
  };
}
