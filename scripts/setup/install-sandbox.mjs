/**
 * Gets what code rewards run programs in: bubblewrap, and the Python that they are written for.
 *
 * Everything else works without it, so it is installed only where we may, and a failure is remembered instead of tried again.
 */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findExecutable } from "./find-executable.mjs";
import { aptInstall, installCommand } from "./system.mjs";

const PACKAGES = ["bubblewrap", "python3"];

/** Whether to install it now. */
export function lacksSandbox(root, { mayInstall }, find = findExecutable) {
  const isThere = find("bwrap") !== null && find("python3") !== null;
  return !isThere && mayInstall && !existsSync(markOf(root));
}

export async function installSandbox({ log, install = aptInstall }) {
  await install(PACKAGES, { log });
}

/** Writes down that it cannot be installed here, and says what is missing because of that. */
export function giveUpSandbox(root, system) {
  const command = installCommand(system, PACKAGES);
  writeFileSync(markOf(root), `${command}\n`);
  return `warning: bubblewrap could not be installed, so rewards cannot run Python programs. To have them: ${command}`;
}

function markOf(root) {
  return join(root, "build/sandbox-unavailable");
}
