/**
 * Compiles src into dist with tsc, and bundles the workers.
 */
import { chmodSync, existsSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { bundleWorkers, removeBundles } from "./bundle-workers.mjs";
import { runCommand } from "./run-command.mjs";
import { clearStamp, hashInputs, listFiles, stampMatches, writeStamp } from "./stamp.mjs";

const STAMP = "build/stamps/typescript";
const INCREMENTAL_STATE = "build/tsc/build.tsbuildinfo";
const COMMAND = "dist/cli/main.js";
const OUTPUT = /(\.d\.ts|\.js)(\.map)?$/;

/** Why src must be compiled, or null when dist is current. */
export function compileReason(root) {
  // A published package holds dist and no sources.
  if (listSources(root).length === 0) return null;
  if (!existsSync(join(root, "dist"))) return "there is no dist";
  return stampMatches(join(root, STAMP), sourcesHash(root)) ? null : "its sources changed";
}

export async function compileTypescript(root, { log }) {
  const stamp = join(root, STAMP);
  const hash = sourcesHash(root);
  const compiler = createRequire(join(root, "package.json")).resolve("typescript/package.json");
  clearStamp(stamp);
  // With its state kept, tsc takes files that somebody deleted from dist for written.
  if (!existsSync(join(root, "dist"))) rmSync(join(root, INCREMENTAL_STATE), { force: true });
  await runCommand(process.execPath, [join(dirname(compiler), "bin/tsc"), "-p", "tsconfig.build.json"], {
    log,
    cwd: root,
  });
  removeLeftovers(root);
  await bundleWorkers(root);
  // npm does this for a package that it installs; here it makes the command run from a checkout.
  if (existsSync(join(root, COMMAND))) chmodSync(join(root, COMMAND), 0o755);
  writeStamp(stamp, hash);
}

/** To be called by whoever else writes to dist: the next compile makes all of it. Until then there are no bundles. */
export function forgetCompiled(root) {
  removeBundles(root);
  clearStamp(join(root, STAMP));
  rmSync(join(root, INCREMENTAL_STATE), { force: true });
}

function listSources(root) {
  return listFiles(join(root, "src")).filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"));
}

function sourcesHash(root) {
  const settings = ["tsconfig.json", "tsconfig.build.json", "package-lock.json", "scripts/setup/bundle-workers.mjs"];
  const files = [...settings, ...listSources(root).map((file) => `src/${file}`)];
  return hashInputs(
    root,
    files.filter((file) => existsSync(join(root, file))),
  );
}

/** Removes what was compiled from sources that are no longer there. */
function removeLeftovers(root) {
  const sources = new Set(listSources(root));
  const leftovers = listFiles(join(root, "dist")).filter(
    (file) => OUTPUT.test(file) && !sources.has(file.replace(OUTPUT, ".ts")),
  );
  for (const file of leftovers) rmSync(join(root, "dist", file));
}
