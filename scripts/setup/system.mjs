/**
 * What the machine is, and how software is installed on it.
 *
 * Debian and Ubuntu as root is the one case in which the setup installs by itself; everywhere else it says what to type.
 */
import { existsSync, readFileSync } from "node:fs";
import { runCommand } from "./run-command.mjs";

/** `family` decides the commands we print; `mayInstall` whether we run them ourselves. */
export function describeSystem({
  allowInstall = true,
  platform = process.platform,
  userId = process.getuid?.(),
  osRelease = readOsRelease(),
} = {}) {
  const family = familyOf(platform, osRelease);
  const isRoot = userId === 0;
  return { family, isRoot, mayInstall: allowInstall && isRoot && family === "debian" };
}

/** The command a person types to install packages of the system, or null where we do not know one. */
export function installCommand({ family, isRoot }, packages) {
  const sudo = isRoot ? "" : "sudo ";
  if (family === "debian") {
    return `${sudo}apt-get update && ${sudo}apt-get install -y --no-install-recommends ${packages.join(" ")}`;
  }
  if (family === "fedora") return `${sudo}dnf install -y ${packages.join(" ")}`;
  if (family === "macos") return `brew install ${packages.join(" ")}`;
  return null;
}

/** Installs Debian packages. Asks the mirror for new lists only when the lists at hand are not enough. */
export async function aptInstall(packages, { log, run = runCommand }) {
  const options = { log, env: { DEBIAN_FRONTEND: "noninteractive" } };
  const quiet = ["-q", "-o", "DPkg::Lock::Timeout=120"];
  const install = [...quiet, "install", "-y", "--no-install-recommends", ...packages];
  try {
    await run("apt-get", install, options);
  } catch {
    await run("apt-get", [...quiet, "update"], { ...options, append: true });
    await run("apt-get", install, { ...options, append: true });
  }
}

function familyOf(platform, osRelease) {
  if (platform === "darwin") return "macos";
  if (platform !== "linux") return "other";
  const words = [...osRelease.matchAll(/^(?:ID|ID_LIKE)=(.*)$/gm)].flatMap((match) =>
    match[1].replaceAll('"', "").split(" "),
  );
  if (words.includes("debian") || words.includes("ubuntu")) return "debian";
  if (words.includes("fedora") || words.includes("rhel")) return "fedora";
  return "other";
}

function readOsRelease() {
  return existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : "";
}
