import { fileURLToPath } from "node:url";
import { configDefaults, defineConfig } from "vitest/config";

const src = fileURLToPath(new URL("./src/", import.meta.url));

/**
 * Tests that need a process of their own: they replace modules, count the process's live tensors, or import run files, which load a
 * second copy of the package beside the one under test.
 */
const alone = [
  "src/generation/local/launched-steps.test.ts",
  "src/torch/memory.test.ts",
  "src/torch/tensor-handle.test.ts",
  "src/errors/secret.test.ts",
  "src/run/**/*.test.ts",
];

export default defineConfig({
  resolve: {
    alias: [
      { find: /^reroll$/, replacement: `${src}index.ts` },
      { find: /^reroll\/([a-z]+)$/, replacement: `${src}$1/index.ts` },
    ],
  },
  test: {
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
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
