/**
 * Writes every generated file, or with --check fails when one is stale.
 *
 * Usage: npm run generate [-- --check]
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { algorithmTable } from "./generate/algorithm-table.ts";
import { errorReference } from "./generate/error-table.ts";
import { metricReference } from "./generate/metric-table.ts";
import { operatorTypes } from "./generate/operator-types.ts";
import { runFileTable } from "./generate/run-file-table.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const isCheck = process.argv.includes("--check");

/** Each generated file and the function that makes its text. */
const files: Readonly<Record<string, (root: string) => string>> = {
  "src/torch/generated/operators.ts": operatorTypes,
  "docs/reference/algorithms.md": algorithmTable,
  "docs/reference/run-file.md": runFileTable,
  "docs/reference/metrics.md": metricReference,
  "docs/reference/errors.md": errorReference,
};

const stale = Object.entries(files).filter(([path, make]) => {
  const text = make(root);
  const target = join(root, path);
  if (readOrEmpty(target) === text) return false;
  if (!isCheck) {
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text);
    console.log(`wrote ${path}`);
  }
  return true;
});

if (isCheck && stale.length > 0) {
  console.error(`Generated files are stale: ${stale.map(([path]) => path).join(", ")}. Run "npm run generate".`);
  process.exit(1);
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
