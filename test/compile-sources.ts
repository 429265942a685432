/**
 * Brings dist up to date before the first test: tests run the compiled package, as users do. See vitest.config.ts.
 *
 * Compiles each source that changed since it was compiled, by itself and unchecked, to what `tsc` makes of it. The types are
 * the business of `npm run check`.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../", import.meta.url));

export async function setup(): Promise<void> {
  if (!existsSync(join(root, "dist"))) throw new Error("There is no dist. Run: npm run setup");
  const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter(
    (file) => file.endsWith(".ts") && !file.endsWith(".test.ts"),
  );
  const stale = sources.filter(isStale);
  if (stale.length === 0) return;
  const { default: ts } = await import("typescript");
  const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const compilerOptions = { ...options, noEmit: false, sourceMap: true };
  for (const file of stale) {
    const target = targetOf(file);
    const { outputText, sourceMapText } = ts.transpileModule(readFileSync(join(root, "src", file), "utf8"), {
      compilerOptions: { ...compilerOptions, sourceRoot: dirname(join(root, "src", file)) },
      fileName: join(root, "src", file),
    });
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(`${target}.map`, sourceMapText ?? "");
    writeFileSync(target, outputText);
  }
}

function targetOf(file: string): string {
  return join(root, "dist", file.replace(/\.ts$/, ".js"));
}

/** Moving a file keeps the time at which it was written, but not the one at which its entry changed. */
function isStale(file: string): boolean {
  const compiled = statSync(targetOf(file), { throwIfNoEntry: false });
  return compiled === undefined || statSync(join(root, "src", file)).ctimeMs > compiled.mtimeMs;
}
