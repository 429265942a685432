/**
 * Builds the package of prebuilt addons for this platform, such as @reroll/linux-x64, ready for `npm publish`.
 *
 * In: the libtorch of this machine (as the setup finds it). Out: a folder with package.json and one folder per kind of libtorch
 * (minor version, CUDA, C++ ABI). Run it once for each libtorch to support, with the same --out: each adds its folder.
 *
 * Usage: node scripts/build-platform-package.mjs [--out build/platform-package]
 */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { abiOf } from "./setup/addon-cache.mjs";
import { buildAddon, OUTPUTS } from "./setup/build-addon.mjs";
import { findCudaHeaders } from "./setup/find-cuda-headers.mjs";
import { findLibtorch } from "./setup/find-libtorch.mjs";

const PLATFORMS = ["linux-x64", "linux-arm64", "darwin-arm64"];
/** Where an addon looks for libtorch: the link `lib` that the setup makes beside it. */
const RPATH = process.platform === "darwin" ? "@loader_path/lib" : "$ORIGIN/lib";

const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
const { values } = parseArgs({ options: { out: { type: "string", default: join(root, "build/platform-package") } } });
const out = resolve(values.out);
const platform = `${process.platform}-${process.arch}`;
if (!PLATFORMS.includes(platform)) fail(`There is no package for ${platform}. There are: ${PLATFORMS.join(", ")}.`);
const { libtorch, looked } = findLibtorch();
if (libtorch === null) fail(`No libtorch was found. Looked at: ${looked.join("; ")}. Set REROLL_LIBTORCH.`);
const cudaInclude = libtorch.cuda ? findCudaHeaders(libtorch) : null;
if (libtorch.cuda && cudaInclude === null)
  fail("libtorch has CUDA, and the CUDA headers were not found. Set CUDA_HOME.");

const abi = abiOf(libtorch);
const folder = join(root, "build/platform-native", abi);
const place = { root, folder, buildFolder: folder, stamp: join(folder, "stamp") };
await buildAddon(place, { libtorch, cudaInclude }, { log: `${folder}.log`, rpath: RPATH });

const { version, license } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
mkdirSync(join(out, abi), { recursive: true });
for (const file of OUTPUTS) copyFileSync(join(folder, file), join(out, abi, file));
// Without the paths of the machine that built it.
const { version: torchVersion, cxx11Abi, cuda, cudaVersion } = libtorch;
writeJson(join(out, abi, "libtorch.json"), { version: torchVersion, cxx11Abi, cuda, cudaVersion });
writeJson(join(out, "package.json"), {
  name: `@reroll/${platform}`,
  version,
  description: `Prebuilt native addons of reroll for ${platform}.`,
  license,
  os: [process.platform],
  cpu: [process.arch],
  ...(process.platform === "linux" && { libc: ["glibc"] }),
});
copyFileSync(join(root, "LICENSE"), join(out, "LICENSE"));
console.log(`${out}: ${abi}`);

function writeJson(file, value) {
  writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
