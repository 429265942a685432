/**
 * npm packages, exactly as the lock file says.
 *
 * `npm ci` deletes node_modules, so it runs only when they differ from the lock file. Two things tell that they do not:
 * our stamp, and npm's own record of what it installed (so that after a plain `npm ci` or `npm install` there is nothing to do).
 */
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { runCommand } from "./run-command.mjs";
import { clearStamp, hashInputs, stampMatches, writeStamp } from "./stamp.mjs";

const STAMP = "node_modules/.reroll-setup";

/** Why `npm ci` must run, or null when the packages are current. */
export function packagesReason(root) {
  // A published package has no lock file; whoever installed it installed its dependencies.
  if (!existsSync(join(root, "package-lock.json"))) return null;
  if (!existsSync(join(root, "node_modules"))) return "there is no node_modules";
  if (stampMatches(join(root, STAMP), packagesHash(root))) return null;
  if (!existsSync(join(root, "node_modules/.package-lock.json"))) return "an earlier install did not finish";
  const difference = findDifference(
    readPackages(root, "package-lock.json"),
    readPackages(root, "node_modules/.package-lock.json"),
  );
  return difference === null ? null : `${difference} is not as in package-lock.json`;
}

export async function installPackages(root, { log }) {
  const npm = process.env.npm_execpath ?? "";
  const [command, ...first] = basename(npm).startsWith("npm") ? [process.execPath, npm] : ["npm"];
  clearStamp(join(root, STAMP));
  await runCommand(command, [...first, "ci", "--no-audit", "--no-fund"], { log, cwd: root, show: "start" });
  writeStamp(join(root, STAMP), packagesHash(root));
}

function packagesHash(root) {
  return hashInputs(root, ["package-lock.json"], { platform: process.platform, arch: process.arch });
}

function readPackages(root, file) {
  return JSON.parse(readFileSync(join(root, file), "utf8")).packages;
}

/** The first package that is missing, left over or of another version, or null. */
function findDifference(wanted, installed) {
  const missing = Object.keys(wanted).find(
    (name) => name !== "" && isNeeded(wanted[name]) && installed[name]?.version !== wanted[name].version,
  );
  const extra = Object.keys(installed).find((name) => installed[name].version !== wanted[name]?.version);
  return missing ?? extra ?? null;
}

/** Optional packages count when they are the binaries of this platform; npm may leave out all others. */
function isNeeded(entry) {
  if (!entry.optional) return true;
  if (entry.libc !== undefined || (entry.os === undefined && entry.cpu === undefined)) return false;
  return (entry.os?.includes(process.platform) ?? true) && (entry.cpu?.includes(process.arch) ?? true);
}
