/**
 * Runs before `npm pack` and `npm publish`: refuses a package that would lack something.
 *
 * What is compiled is not in git, so a fresh clone has none of it, and a checkout may have what is old.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { dashboardReason } from "./setup/build-dashboard.mjs";
import { compileReason } from "./setup/compile-typescript.mjs";

const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
const reasons = [
  existsSync(join(root, "dist/cli/main.js")) ? of("TypeScript", compileReason(root)) : "there is no dist",
  existsSync(join(root, "dist/dashboard/app/index.html"))
    ? of("the dashboard", dashboardReason(root))
    : "the dashboard's page is not built",
].filter((reason) => reason !== null);
if (reasons.length > 0) {
  console.error(`The package cannot be packed yet: ${reasons.join("; ")}. Run "npm run setup" first, then pack again.`);
  process.exitCode = 1;
}

function of(part, reason) {
  return reason === null ? null : `${part} is to be built again, because ${reason}`;
}
