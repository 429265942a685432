/**
 * The addon of an installed package: one per libtorch, in a folder outside of node_modules that the command `reroll setup` names.
 *
 * `<folder>/<libtorch>/` holds an addon as build/native does in a checkout, and `<folder>/current` the name of the one that was set up
 * last, which is loaded. A prebuilt addon of a platform package is put there too, with a link `lib` to the libtorch of this machine.
 */
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { OUTPUTS, writeBuiltAgainst } from "./build-addon.mjs";

/** Where the addon for a libtorch goes. */
export function cachePlace(root, into, { libtorch, cudaInclude }) {
  const where = createHash("sha256").update(libtorch.root).digest("hex").slice(0, 8);
  const folder = join(into, `libtorch-${libtorch.version}-${cudaInclude === null ? "cpu" : "cuda"}-${where}`);
  return { root, folder, buildFolder: join(folder, "build"), stamp: join(folder, "stamp") };
}

/** Makes an addon the one that is loaded. */
export function chooseAddon(into, { folder }) {
  writeFileSync(join(into, "current"), `${folder.slice(into.length + 1)}\n`);
}

/** The folder of the prebuilt addon that fits a libtorch: of its minor version, its C++ ABI and its CUDA. Null where there is none. */
export function findPrebuilt(root, libtorch, platform = `${process.platform}-${process.arch}`) {
  const packages = platformPackage(root, platform);
  if (packages === null) return null;
  const fits = readdirSync(packages, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && existsSync(join(packages, entry.name, "libtorch.json")))
    .find(({ name }) => {
      const built = JSON.parse(readFileSync(join(packages, name, "libtorch.json"), "utf8"));
      return abiOf(built) === abiOf(libtorch);
    });
  return fits === undefined ? null : join(packages, fits.name);
}

/** Puts a prebuilt addon into its place. Its libraries are looked for in `lib` beside it, which is linked to this machine's. */
export function placePrebuilt(prebuilt, { folder }, target) {
  mkdirSync(folder, { recursive: true });
  for (const file of OUTPUTS) copyFileSync(join(prebuilt, file), join(folder, file));
  rmSync(join(folder, "lib"), { force: true });
  symlinkSync(target.libtorch.libDir, join(folder, "lib"));
  writeBuiltAgainst(folder, target);
}

/** What two libtorchs must have in common for one addon. Minor versions change the layout of classes, patches do not. */
export function abiOf({ version, cxx11Abi, cuda, cudaVersion }) {
  const [major, minor] = version.split(".");
  return `libtorch-${major}.${minor}-${cuda ? `cuda${cudaVersion?.split(".")[0] ?? ""}` : "cpu"}${cxx11Abi ? "" : "-old-abi"}`;
}

function platformPackage(root, platform) {
  const paths = createRequire(join(root, "package.json")).resolve.paths(`@reroll/${platform}`) ?? [];
  const file = paths.map((folder) => join(folder, `@reroll/${platform}/package.json`)).find((path) => existsSync(path));
  return file === undefined ? null : dirname(file);
}
