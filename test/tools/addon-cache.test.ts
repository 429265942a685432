/** The addon of an installed package: where `reroll setup` keeps it, prebuilt or compiled, and where it is looked for. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { addonCache, findAddon } from "../../src/torch/find-addon.ts";

const load = (name: string) => import(new URL(`../../scripts/setup/${name}.mjs`, import.meta.url).href);
const { abiOf, cachePlace, chooseAddon, findPrebuilt, placePrebuilt } = await load("addon-cache");

const suffix = process.platform === "darwin" ? ".dylib" : ".so";
const { version } = JSON.parse(readFileSync("package.json", "utf8"));
let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "reroll-addon-"));
});
afterEach(() => rmSync(root, { recursive: true }));

function write(files: Record<string, string>): void {
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
}

/** A libtorch that was found, as far as it matters here. */
function libtorch() {
  write({ [`torch/lib/libtorch_cpu${suffix}`]: "" });
  const folder = join(root, "torch");
  const facts = { version: "2.11.0+cu130", cxx11Abi: true, cuda: false, cudaVersion: null };
  return { root: folder, libDir: join(folder, "lib"), ...facts };
}

test("the cache is REROLL_CACHE, else below XDG_CACHE_HOME, with a folder for this version and platform", () => {
  const own = `addon-${version}-napi8-${process.platform}-${process.arch}`;
  expect(addonCache({ REROLL_CACHE: "/a", XDG_CACHE_HOME: "/b" })).toBe(`/a/${own}`);
  expect(addonCache({ XDG_CACHE_HOME: "/b" })).toBe(`/b/reroll/${own}`);
});

test("REROLL_ADDON names the folder of the addon, and one without an addon is refused", () => {
  write({ "mine/reroll.node": "" });
  expect(findAddon({ REROLL_ADDON: join(root, "mine") })).toBe(join(root, "mine"));
  expect(() => findAddon({ REROLL_ADDON: root })).toThrow(
    `REROLL_ADDON must name a folder that holds reroll.node: there is none in ${root}.`,
  );
});

test("each libtorch has its own place, and the last one that was set up is the current one", () => {
  const found = libtorch();
  const into = join(root, "cache");
  const place = cachePlace(root, into, { libtorch: found, cudaInclude: null });
  const other = cachePlace(root, into, { libtorch: { ...found, root: "/elsewhere" }, cudaInclude: null });
  expect(place.folder).toMatch(/cache\/libtorch-2\.11\.0\+cu130-cpu-[0-9a-f]{8}$/);
  expect(other.folder).not.toBe(place.folder);
  mkdirSync(into);
  chooseAddon(into, place);
  expect(join(into, readFileSync(join(into, "current"), "utf8").trim())).toBe(place.folder);
});

test("a prebuilt addon fits a libtorch of the same minor version, CUDA and C++ ABI", () => {
  expect(abiOf({ version: "2.11.0+cu130", cxx11Abi: true, cuda: true, cudaVersion: "13.0" })).toBe(
    "libtorch-2.11-cuda13",
  );
  expect(abiOf({ version: "1.13.1", cxx11Abi: false, cuda: false, cudaVersion: null })).toBe(
    "libtorch-1.13-cpu-old-abi",
  );
  const built = { version: "2.11.1", cxx11Abi: true, cuda: false, cudaVersion: null };
  write({
    "package.json": "{}",
    "node_modules/@reroll/linux-x64/package.json": "{}",
    "node_modules/@reroll/linux-x64/one/libtorch.json": JSON.stringify({ ...built, version: "2.9.0" }),
    "node_modules/@reroll/linux-x64/two/libtorch.json": JSON.stringify(built),
  });
  expect(findPrebuilt(root, libtorch(), "linux-x64")).toBe(join(root, "node_modules/@reroll/linux-x64/two"));
  expect(findPrebuilt(root, { ...libtorch(), version: "2.10.0" }, "linux-x64")).toBeNull();
  expect(findPrebuilt(root, libtorch(), "darwin-arm64")).toBeNull();
});

test("a prebuilt addon finds this machine's libtorch through a link beside it", () => {
  const found = libtorch();
  write({
    "prebuilt/reroll.node": "addon",
    "prebuilt/environment.node": "variables",
    "prebuilt/signals.node": "signals",
  });
  const target = { libtorch: found, cudaInclude: null };
  const place = cachePlace(root, join(root, "cache"), target);
  for (const _ of ["first", "again"]) placePrebuilt(join(root, "prebuilt"), place, target);
  expect(readFileSync(join(place.folder, "reroll.node"), "utf8")).toBe("addon");
  expect(existsSync(join(place.folder, "lib", `libtorch_cpu${suffix}`))).toBe(true);
  expect(JSON.parse(readFileSync(join(place.folder, "libtorch.json"), "utf8"))).toMatchObject({
    version: "2.11.0+cu130",
    libDir: found.libDir,
    addonCuda: false,
  });
});
