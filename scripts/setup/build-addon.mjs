/**
 * Builds the native addon with cmake.
 *
 * In: what libtorch was found, and the place: where the sources are and where the addon goes. Out: reroll.node, environment.node,
 * signals.node, and libtorch.json, which says what they were built against, so that the runtime can tell an addon that does not fit
 * from one that is broken.
 */
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism, totalmem } from "node:os";
import { join, relative } from "node:path";
import { findExecutable } from "./find-executable.mjs";
import { runCommand } from "./run-command.mjs";
import { SetupError } from "./setup-error.mjs";
import { clearStamp, hashInputs, listFiles, stampMatches, writeStamp } from "./stamp.mjs";

export const OUTPUTS = ["reroll.node", "environment.node", "signals.node"];

/** A compiler that reads libtorch's headers takes up to this much memory; more of them at once make the machine swap. */
const BYTES_PER_COMPILER = 2 ** 31;

/** The addon of a checkout: in build/native, where cmake keeps what it needs to build less the next time. */
export function checkoutPlace(root) {
  const folder = join(root, "build/native");
  return { root, folder, buildFolder: folder, stamp: join(root, "build/stamps/native") };
}

/** Why the addon must be built, or null when it is current. */
export function addonReason(place, target) {
  const missing = OUTPUTS.find((file) => !existsSync(join(place.folder, file)));
  if (missing !== undefined) return `${join(relative(place.root, place.folder), missing)} is missing`;
  if (nodeApiHeaders(place.root) === null) return "the Node-API headers are not installed";
  if (stampMatches(place.stamp, addonHash(place.root, target))) return null;
  const built = readBuiltAgainst(place.folder);
  if (built === null) return "an earlier build did not finish";
  const { version, root: folder } = target.libtorch;
  return built.version === version && built.root === folder
    ? "its inputs changed"
    : `libtorch is now ${version} at ${folder}`;
}

/** `target` is `{ libtorch, cudaInclude }`; `cudaInclude` is a list of folders, or null for an addon without CUDA. */
export async function buildAddon(place, target, { log, onProgress, rpath }) {
  const { root, folder, buildFolder, stamp } = place;
  const hash = addonHash(root, target);
  const generator = findExecutable("ninja") === null ? "Unix Makefiles" : "Ninja";
  clearStamp(stamp);
  rmSync(join(folder, "libtorch.json"), { force: true });
  dropForeignCache(root, buildFolder, generator);
  mkdirSync(buildFolder, { recursive: true });
  await runCommand("cmake", configureArguments(place, target, { generator, rpath }), { log });
  const jobs = Math.max(1, Math.min(availableParallelism(), Math.floor(totalmem() / BYTES_PER_COMPILER)));
  await runCommand("cmake", ["--build", buildFolder, "--parallel", String(jobs)], { log, append: true, onProgress });
  const missing = OUTPUTS.find((file) => !existsSync(join(buildFolder, file)));
  if (missing !== undefined) throw new SetupError(`cmake succeeded but made no ${missing} (see ${log}).`);
  if (buildFolder !== folder) {
    for (const file of OUTPUTS) copyFileSync(join(buildFolder, file), join(folder, file));
    rmSync(buildFolder, { recursive: true });
  }
  writeBuiltAgainst(folder, target);
  writeStamp(stamp, hash);
}

/** The record of what an addon was built against, beside it. */
export function writeBuiltAgainst(folder, { libtorch, cudaInclude }) {
  const librarySize = statSync(libraryFile(libtorch.libDir)).size;
  const description = { ...libtorch, librarySize, addonCuda: cudaInclude !== null, cudaInclude };
  writeFileSync(join(folder, "libtorch.json"), `${JSON.stringify(description, null, 2)}\n`);
}

/** `rpath` is where the addon looks for libtorch; by default where it is now. */
export function configureArguments({ root, buildFolder }, { libtorch, cudaInclude }, { generator, rpath }) {
  const variables = {
    CMAKE_BUILD_TYPE: "Release",
    REROLL_TORCH_INCLUDE: libtorch.includeDirs.join(";"),
    REROLL_TORCH_LIB: libtorch.libDir,
    REROLL_RPATH: rpath ?? libtorch.libDir,
    REROLL_CXX11_ABI: libtorch.cxx11Abi ? "1" : "0",
    REROLL_CXX_STANDARD: String(libtorch.cxxStandard),
    REROLL_CUDA: cudaInclude === null ? "OFF" : "ON",
    REROLL_CUDA_INCLUDE: (cudaInclude ?? []).join(";"),
    REROLL_NAPI_INCLUDE: join(nodeApiHeaders(root), "include"),
  };
  const definitions = Object.entries(variables).map(([name, value]) => `-D${name}=${value}`);
  return ["-S", join(root, "native"), "-B", buildFolder, "-G", generator, ...definitions];
}

function addonHash(root, { libtorch, cudaInclude }) {
  const native = join(root, "native");
  const headers = JSON.parse(readFileSync(join(nodeApiHeaders(root), "package.json"), "utf8")).version;
  // The size and time of a library change when a package is upgraded in place.
  const { size, mtimeMs } = statSync(libraryFile(libtorch.libDir));
  return hashInputs(native, listFiles(native), { libtorch, cudaInclude, headers, library: [size, mtimeMs] });
}

function libraryFile(libDir) {
  return ["libtorch_cpu.so", "libtorch_cpu.dylib"].map((name) => join(libDir, name)).find((file) => existsSync(file));
}

/** As a dependency of another project the headers may lie in that project's node_modules, so Node has to look. */
function nodeApiHeaders(root) {
  const paths = createRequire(join(root, "package.json")).resolve.paths("node-api-headers") ?? [];
  return paths.map((folder) => join(folder, "node-api-headers")).find((folder) => existsSync(folder)) ?? null;
}

function readBuiltAgainst(folder) {
  const file = join(folder, "libtorch.json");
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : null;
}

/** cmake refuses a cache that another generator made or that was copied from another folder. */
function dropForeignCache(root, buildFolder, generator) {
  const cacheFile = join(buildFolder, "CMakeCache.txt");
  if (!existsSync(cacheFile)) return;
  const cache = readFileSync(cacheFile, "utf8");
  const isOurs = [`CMAKE_GENERATOR:INTERNAL=${generator}\n`, `CMAKE_HOME_DIRECTORY:INTERNAL=${join(root, "native")}\n`];
  if (isOurs.every((line) => cache.includes(line))) return;
  rmSync(cacheFile);
  rmSync(join(buildFolder, "CMakeFiles"), { recursive: true, force: true });
}
