/**
 * Packs scripts for a machine that can install nothing: no network, no npm, no Node, but a libtorch and a C++ compiler.
 *
 * In: TypeScript entry files. Out: a folder with each bundled into one file, the threads they start bundled beside them, the optional
 * packages they name, this Node (stripped and compressed), the addon's source and a run.sh that unpacks, builds and runs them there.
 *
 * Usage: npm run bundle -- <entry.ts> [<entry.ts> ...] [--out pack]
 */
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
const { positionals: entries, values } = parseArgs({
  allowPositionals: true,
  options: { out: { type: "string", default: "pack" } },
});
if (entries.length === 0) {
  console.error("Usage: npm run bundle -- <entry.ts> [<entry.ts> ...] [--out pack]");
  process.exit(2);
}
const out = resolve(values.out);

copyPackages(await bundle());
copySources();
compressNode();
writeRunScript();
console.log(`${out}: copy it to the machine and run there: sh run.sh ${basename(entries[0], ".ts")}`);

/** Two folders deep, as the sources are: the addon is found relative to the file. Out: the files that went in. */
async function bundle() {
  const outdir = join(out, "dist/entries");
  rmSync(outdir, { recursive: true, force: true });
  let entryPoints = entries.map((entry) => resolve(entry));
  let inputs = [];
  // A thread can start further ones, so look again until no new one is found.
  for (;;) {
    const { metafile } = await build({
      entryPoints,
      outdir,
      entryNames: "[name]",
      bundle: true,
      splitting: true,
      platform: "node",
      format: "esm",
      target: "node20",
      sourcemap: "inline",
      sourcesContent: false,
      logLevel: "warning",
      metafile: true,
      // Packages in CommonJS ask for Node's own modules by require, which modules do not have.
      banner: {
        js: 'import { createRequire as createPackedRequire } from "node:module"; const require = createPackedRequire(import.meta.url);',
      },
    });
    inputs = Object.keys(metafile.inputs);
    const wanted = new Set([...entryPoints, ...inputs.flatMap(threadsOf)]);
    if (wanted.size === entryPoints.length) break;
    entryPoints = [...wanted];
  }
  for (const file of inputs.flatMap(binariesOf)) cpSync(file, join(outdir, basename(file)));
  const { version } = readJson("package.json");
  writeFileSync(join(out, "package.json"), `${JSON.stringify({ type: "module", version })}\n`);
  return inputs;
}

/**
 * Optional packages are asked for by name before they are loaded, which their package.json answers. One that is bundled needs no more of it;
 * of one that is read as a file, all that runs is copied. Such a package has no dependencies.
 */
function copyPackages(inputs) {
  const texts = inputs.filter((file) => file.endsWith(".ts") && !file.endsWith("/optional-package.ts")).map(read);
  for (const name of Object.keys(readJson("package.json").peerDependencies)) {
    const [from, to] = [join(root, "node_modules", name), join(out, "node_modules", name)];
    rmSync(to, { recursive: true, force: true });
    if (!texts.some((text) => text.includes(`"${name}"`)) || !existsSync(from)) continue;
    const isBundled = inputs.some((file) => file.includes(`node_modules/${name}/`));
    if (isBundled) cpSync(join(from, "package.json"), join(to, "package.json"));
    else cpSync(from, to, { recursive: true, filter: (path) => !/\.(map|d\.ts)$/.test(path) });
  }
}

function readJson(file) {
  return JSON.parse(read(join(root, file)));
}

function read(file) {
  return readFileSync(file, "utf8");
}

/** The modules that a source file starts threads from, named as `new URL("engine-worker", import.meta.url)`. */
function threadsOf(source) {
  if (!source.endsWith(".ts")) return [];
  return [...read(source).matchAll(/new URL\("([\w-]+)(?:\.js)?", import\.meta\.url\)/g)]
    .map(([, name]) => resolve(dirname(source), `${name}.ts`))
    .filter(existsSync);
}

/** The WebAssembly that a package's module loads from beside itself, as `new URL("mujoco.wasm", import.meta.url)`. */
function binariesOf(source) {
  if (!source.includes("node_modules/") || !source.endsWith(".js")) return [];
  return [...read(source).matchAll(/new URL\(["']([\w-]+\.wasm)["'], import\.meta\.url\)/g)]
    .map(([, name]) => resolve(dirname(source), name))
    .filter(existsSync);
}

function copySources() {
  for (const folder of ["native", "scripts/setup", "node_modules/node-api-headers"]) {
    rmSync(join(out, folder), { recursive: true, force: true });
    cpSync(join(root, folder), join(out, folder), {
      recursive: true,
      filter: (path) => !path.includes("/native/schemas"),
    });
  }
  cpSync(join(root, "scripts/bundle/build-here.mjs"), join(out, "scripts/build-here.mjs"));
}

/** A release binary carries symbols that nobody needs to run it: stripped and compressed it is a quarter of the size. */
function compressNode() {
  const target = join(out, "node.xz");
  if (existsSync(target)) return;
  mkdirSync(out, { recursive: true });
  const copy = join(out, "node");
  cpSync(process.execPath, copy, { dereference: true });
  chmodSync(copy, 0o755);
  execFileSync("strip", [copy]);
  execFileSync("xz", ["-T0", "-6", copy]);
  console.log(`node.xz ${(statSync(target).size / 1e6).toFixed(0)} MB`);
}

function writeRunScript() {
  const script = `#!/bin/sh
# Usage: sh run.sh <entry> [arguments]. Unpacks Node and builds the addon on the first run.
set -e
here=$(cd "$(dirname "$0")" && pwd)
[ -x "$here/node" ] || { xz -dk "$here/node.xz"; chmod +x "$here/node"; }
"$here/node" "$here/scripts/build-here.mjs"
entry=$1
shift
exec "$here/node" --enable-source-maps --expose-gc "$here/dist/entries/$entry.js" "$@"
`;
  writeFileSync(join(out, "run.sh"), script);
}
