/**
 * Brings dist up to date before the first test: tests run the compiled package, as users do. See vitest.config.ts.
 *
 * Compiles each source that changed since, by itself and unchecked, to what tsc makes of it: an edit costs a moment. The types are
 * the business of `npm run check`.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../", import.meta.url));
/** By source: its hash, and when the file in dist was written from it. */
const RECORD = join(root, "build/stamps/compiled-sources.json");
type Compiled = readonly [hash: string, writtenMs: number];

// Plain JavaScript, because it runs before anything is installed; so it is loaded without types.
const scripts = new URL("../scripts/setup/", import.meta.url).href;
const { bundleWorkers } = await import(`${scripts}bundle-workers.mjs`);
const { compileReason, forgetCompiled } = await import(`${scripts}compile-typescript.mjs`);

export async function setup(): Promise<void> {
  if (!existsSync(join(root, "dist"))) throw new Error("There is no dist. Run: npm run setup");
  const known: Record<string, Compiled> = existsSync(RECORD) ? JSON.parse(readFileSync(RECORD, "utf8")) : {};
  const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
    .map((file) => ({ file, text: readFileSync(join(root, "src", file), "utf8") }));
  const changed = sources.filter(({ file, text }) => {
    const [hash, writtenMs] = known[file] ?? [];
    return hash !== hashOf(text) || writtenMs !== writtenAt(file);
  });
  if (changed.length === 0) return;
  if (compileReason(root) !== null) {
    forgetCompiled(root);
    await compile(changed);
    await bundleWorkers(root);
  }
  for (const { file, text } of changed) known[file] = [hashOf(text), writtenAt(file)];
  mkdirSync(dirname(RECORD), { recursive: true });
  writeFileSync(RECORD, JSON.stringify(known));
}

async function compile(sources: readonly { readonly file: string; readonly text: string }[]): Promise<void> {
  const { default: ts } = await import("typescript");
  const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  for (const { file, text } of sources) {
    const fileName = join(root, "src", file);
    const { outputText, sourceMapText = "" } = ts.transpileModule(text, {
      fileName,
      // One file alone does not say what package.json does: that it is an ES module.
      compilerOptions: {
        ...options,
        module: ts.ModuleKind.ES2022,
        noEmit: false,
        sourceMap: true,
        sourceRoot: dirname(fileName),
      },
    });
    mkdirSync(dirname(targetOf(file)), { recursive: true });
    writeFileSync(targetOf(file), outputText);
    writeFileSync(`${targetOf(file)}.map`, sourceMapText);
  }
}

function targetOf(file: string): string {
  return join(root, "dist", file.replace(/\.ts$/, ".js"));
}

function writtenAt(file: string): number {
  return statSync(targetOf(file), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
