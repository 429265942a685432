/** Offers to get the native addon where it is missing: asks on a terminal, says the command elsewhere. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { confirm, isCancel } from "@clack/prompts";
import {
  addonCache,
  addonMissing,
  findAddon,
  hasPlatformPackage,
  isCheckout,
  packageRoot,
} from "../torch/find-addon.ts";

/** Resolves once there is an addon. Rejects with ADDON_MISSING where nobody says yes; nobody is asked where the command's run file is not there. */
export async function offerSetup(runFile?: string): Promise<void> {
  if (findAddon() !== null) return;
  if (runFile !== undefined) (await import("../run/load-run-file.ts")).expectRunFile(runFile);
  // A prebuilt one takes no time: no reason to ask.
  if (hasPlatformPackage() && (await runSetup(["--no-compile"])) === 0) return;
  if (process.stdin.isTTY !== true || process.stdout.isTTY !== true) throw addonMissing();
  const answer = await confirm({
    message: "The native addon is not built for this machine yet. Build it now? It takes a few minutes, once.",
  });
  if (isCancel(answer) || !answer || (await runSetup([])) !== 0) throw addonMissing();
}

/** Runs the setup of this package with what it prints shown here. Out: its exit code. */
export function runSetup(flags: readonly string[]): Promise<number> {
  const place = isCheckout ? [] : ["--into", addonCache()];
  const child = spawn(process.execPath, [join(packageRoot, "scripts/setup.mjs"), ...place, ...flags], {
    stdio: "inherit",
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 1));
  });
}
