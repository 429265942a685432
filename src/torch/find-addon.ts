/**
 * Where the native addon of this machine is, without loading it.
 *
 * In this order: the folder that REROLL_ADDON names; build/native of a checkout, which is the one being worked on; the cache that
 * `reroll setup` fills, outside of node_modules, so that it is built once per machine, version and libtorch.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { RerollError } from "../errors/reroll-error.ts";

/** The variables that are looked at. */
type Environment = Readonly<Record<string, string | undefined>>;

/** The version of Node-API that the addon is written for. Every Node since 20 has it, so an addon serves all of them. */
const NODE_API = 8;

/** The folder of this package, of a checkout or installed. */
export const packageRoot = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** Whether this is a checkout, which keeps its addon in itself. */
export const isCheckout = existsSync(join(packageRoot, "src"));

/** What a person types to get the addon. */
export const setupCommand = isCheckout ? "npm run setup" : "npx reroll setup";

/** The folder that holds reroll.node, or null. */
export function findAddon(environment: Environment = process.env): string | null {
  const named = environment.REROLL_ADDON;
  if (named !== undefined && named !== "") return expectAddon(resolve(named));
  const own = join(packageRoot, "build/native");
  if (hasAddon(own)) return own;
  const cache = addonCache(environment);
  const chosen = cachedFor(cache, environment.REROLL_LIBTORCH) ?? readCurrent(cache);
  return chosen !== null && hasAddon(chosen) ? chosen : null;
}

/** The folder in which `reroll setup` puts addons for this version of reroll, one for each libtorch. */
export function addonCache(environment: Environment = process.env): string {
  const { version }: { version: string } = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8"));
  return join(cacheFolder(environment), `addon-${version}-napi${NODE_API}-${process.platform}-${process.arch}`);
}

/** Whether the package that holds prebuilt addons for this platform is installed. */
export function hasPlatformPackage(): boolean {
  const name = `@reroll/${process.platform}-${process.arch}`;
  const paths = createRequire(join(packageRoot, "package.json")).resolve.paths(name) ?? [];
  return paths.some((folder) => existsSync(join(folder, name)));
}

/** What is wrong where there is no addon, and what to do. */
export function addonMissing(): RerollError {
  const places = [join(packageRoot, "build/native"), ...(isCheckout ? [] : [addonCache()])];
  return new RerollError(
    "ADDON_MISSING",
    `The native addon is not built for this machine: there is none in ${places.join(" or ")}. Run: ${setupCommand}`,
  );
}

function cacheFolder({ REROLL_CACHE, XDG_CACHE_HOME }: Environment): string {
  if (REROLL_CACHE !== undefined && REROLL_CACHE !== "") return resolve(REROLL_CACHE);
  if (XDG_CACHE_HOME !== undefined && XDG_CACHE_HOME !== "") return join(XDG_CACHE_HOME, "reroll");
  return join(homedir(), process.platform === "darwin" ? "Library/Caches/reroll" : ".cache/reroll");
}

/** The addon that was set up last. */
function readCurrent(cache: string): string | null {
  const file = join(cache, "current");
  return existsSync(file) ? join(cache, readFileSync(file, "utf8").trim()) : null;
}

/** The addon for the libtorch that is named, if it was set up. */
function cachedFor(cache: string, libtorch: string | undefined): string | null {
  if (libtorch === undefined || libtorch === "" || !existsSync(cache)) return null;
  const folders = readdirSync(cache, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => join(cache, name));
  return folders.find((folder) => libtorchOf(folder) === resolve(libtorch)) ?? null;
}

function libtorchOf(folder: string): string | null {
  const record = join(folder, "libtorch.json");
  if (!existsSync(record)) return null;
  const { root }: { root: string } = JSON.parse(readFileSync(record, "utf8"));
  return root;
}

function expectAddon(folder: string): string {
  if (hasAddon(folder)) return folder;
  throw new RerollError(
    "ADDON_MISSING",
    `REROLL_ADDON must name a folder that holds reroll.node: there is none in ${folder}. Correct it, or unset it and run: ${setupCommand}`,
  );
}

function hasAddon(folder: string): boolean {
  return existsSync(join(folder, "reroll.node"));
}
