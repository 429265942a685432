/**
 * Compiles a script that a test starts in a process of its own: the script and what it imports from test become one file, and what it
 * imports from src is the compiled file, as in the tests themselves. Starting it costs a third of what it does through tsx.
 */
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../", import.meta.url));
const [src, dist, scripts] = [join(root, "src/"), join(root, "dist/"), join(root, "build/test-scripts/")];

/** Out: the path of a file that `node` runs. Its `import.meta.url` is not that of the script. */
export async function compileScript(script: URL): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(script)],
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    packages: "external",
    plugins: [
      {
        name: "compiled-sources",
        setup: ({ onResolve }) =>
          onResolve({ filter: /^\..*\.ts$/ }, ({ path, resolveDir }) => {
            const file = resolve(resolveDir, path);
            if (!file.startsWith(src)) return undefined;
            return { path: file.replace(src, dist).replace(/\.ts$/, ".js"), external: true };
          }),
      },
    ],
  });
  const name = basename(script.pathname).replace(/\.ts$/, "");
  mkdirSync(scripts, { recursive: true });
  // Another test may be starting the same script.
  const written = join(scripts, `${name}-${process.pid}.js`);
  writeFileSync(written, outputFiles[0]!.contents);
  const compiled = join(scripts, `${name}.js`);
  renameSync(written, compiled);
  return compiled;
}
