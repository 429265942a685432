/**
 * The file that a thread or process of ours begins with: TypeScript in a checkout, JavaScript in the package, and there a bundle, which
 * loads in a third of the time, where `scripts/setup/bundle-workers.mjs` has made one.
 */
import { existsSync } from "node:fs";
import { basename } from "node:path";

const ROOT = new URL("../", import.meta.url);

/** @param module the module's URL without its ending */
export function ownModule(module: URL): URL {
  if (import.meta.url.endsWith(".ts")) return new URL(`${module.href}.ts`);
  const bundled = new URL(`bundled/${basename(module.pathname)}.js`, ROOT);
  const isOurs = module.href.startsWith(ROOT.href);
  return isOurs && existsSync(bundled) ? bundled : new URL(`${module.href}.js`);
}
