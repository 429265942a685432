/** How this program is started: from the package, or from a checkout. */
import { fileURLToPath } from "node:url";

/** The words before those of a command: `node main.js`. */
export function ownProgram(): readonly string[] {
  const isTypeScript = import.meta.url.endsWith(".ts");
  const main = fileURLToPath(new URL(`main.${isTypeScript ? "ts" : "js"}`, import.meta.url));
  return [process.execPath, ...(isTypeScript ? ["--import", import.meta.resolve("tsx")] : []), main];
}
