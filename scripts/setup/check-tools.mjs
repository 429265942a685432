/**
 * What must be on the machine before anything can be built: Node 20, cmake, a C++ compiler, and ninja or make.
 */
import { findExecutable } from "./find-executable.mjs";
import { SetupError } from "./setup-error.mjs";
import { aptInstall, installCommand } from "./system.mjs";

const PACKAGES = {
  debian: { cmake: "cmake", compiler: "g++", builder: "make" },
  fedora: { cmake: "cmake", compiler: "gcc-c++", builder: "make" },
  macos: { cmake: "cmake" },
  other: {},
};
const WORDS = { cmake: "cmake", compiler: "a C++ compiler", builder: "ninja or make" };

export function checkNode(version = process.versions.node) {
  if (Number.parseInt(version, 10) >= 20) return;
  throw new SetupError(
    `Node ${version} is too old. reroll needs Node 20 or later. Install one with your version manager, for example: nvm install 20`,
  );
}

/** The tools that are missing, as a list of "cmake", "compiler" and "builder". */
export function findMissingTools(env = process.env) {
  const candidates = {
    cmake: ["cmake"],
    compiler: [...(env.CXX ? [env.CXX.split(" ")[0]] : []), "c++", "g++", "clang++"],
    builder: ["ninja", "make"],
  };
  return Object.keys(candidates).filter((tool) => candidates[tool].every((name) => findExecutable(name, env) === null));
}

export async function installTools(missing, { system, log }) {
  await aptInstall(packagesFor(missing, system), { log });
}

export function missingToolsMessage(missing, system) {
  const packages = packagesFor(missing, system);
  const commands = packages.length > 0 ? [installCommand(system, packages)] : [];
  if (system.family === "macos" && missing.some((tool) => tool !== "cmake")) commands.unshift("xcode-select --install");
  const what = missing.map((tool) => WORDS[tool]).join(", ");
  if (commands.length === 0) return `Not found in PATH: ${what}. Install them with your package manager and try again.`;
  return [`Not found in PATH: ${what}. Install with:`, ...commands.map((command) => `  ${command}`)].join("\n");
}

function packagesFor(missing, { family }) {
  return missing.map((tool) => PACKAGES[family][tool]).filter((name) => name !== undefined);
}
