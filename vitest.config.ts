import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { configDefaults, defineConfig, type Plugin } from "vitest/config";

const src = fileURLToPath(new URL("./src/", import.meta.url));
const dist = fileURLToPath(new URL("./dist/", import.meta.url));

/**
 * Tests name sources and get what is compiled from them, which Node loads as users' processes and our threads do: in a third of the
 * time, and as one copy, also for the run files that a test loads. `test/compile-sources.ts` keeps dist up to date.
 */
const compiledSources: Plugin = {
  name: "compiled-sources",
  enforce: "pre",
  resolveId(name, importer) {
    const file = importer === undefined || !name.startsWith(".") ? name : resolve(dirname(importer), name);
    if (!file.startsWith(src) || !file.endsWith(".ts") || file.endsWith(".test.ts")) return null;
    return file.replace(src, dist).replace(/\.ts$/, ".js");
  },
};

/** Tests that need a process of their own: they replace methods, count the process's live tensors, or change what it shares. */
const alone = [
  "src/generation/local/launched-steps.test.ts",
  "src/torch/memory.test.ts",
  "src/torch/tensor-handle.test.ts",
  "src/errors/secret.test.ts",
];

export default defineConfig({
  plugins: [compiledSources],
  resolve: {
    alias: [
      { find: /^reroll$/, replacement: `${dist}index.js` },
      { find: /^reroll\/([a-z]+)$/, replacement: `${dist}$1/index.js` },
    ],
  },
  test: {
    pool: "forks",
    maxWorkers: 2,
    globalSetup: "test/compile-sources.ts",
    server: { deps: { external: [/\/dist\//] } },
    // For a machine that has other work to do. Most tests take less than a second on one that has not.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    projects: [
      // Unit tests leave nothing behind, so they share processes: loading the modules once saves a minute and a half.
      {
        extends: true,
        test: {
          name: "unit",
          include: ["src/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...alone],
          isolate: false,
        },
      },
      { extends: true, test: { name: "whole", include: ["test/**/*.test.ts", ...alone] } },
    ],
  },
});
