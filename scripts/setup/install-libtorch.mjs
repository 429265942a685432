/**
 * Gets libtorch onto the machine where we may install, and else says exactly how.
 */
import { spawnSync } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { isOlder, OLDEST_VERSION } from "./read-libtorch.mjs";
import { SetupError } from "./setup-error.mjs";
import { aptInstall, installCommand } from "./system.mjs";

/** The optimized BLAS; the reference one that Debian falls back to is many times slower. */
const BLAS_PACKAGE = "libopenblas0-openmp";
const LIBTORCH_PACKAGES = ["libtorch-dev", BLAS_PACKAGE];

/** Installs the system's libtorch, unless the system has only one that is too old for us. */
export async function installLibtorch({ system, looked, log, install = aptInstall, candidate = aptCandidate() }) {
  if (candidate !== null && isOlder(candidate, OLDEST_VERSION)) {
    const note = `libtorch-dev of this system: version ${candidate} is older than ${OLDEST_VERSION}`;
    throw new SetupError(missingLibtorchMessage([...looked, note], { ...system, family: "other" }));
  }
  await install(LIBTORCH_PACKAGES, { log });
}

/** What is wrong, what we looked at, what to do. */
export function missingLibtorchMessage(looked, system) {
  const packages = system.family === "debian" ? [installCommand(system, LIBTORCH_PACKAGES), "or, for CUDA:"] : [];
  return [
    "libtorch was not found. We looked at:",
    ...looked.map((line) => `  ${line}`),
    "Install it, then run the setup again:",
    ...[...packages, "python3 -m venv .venv && . .venv/bin/activate && python3 -m pip install torch"].map(
      (line) => `  ${line}`,
    ),
    "Or set REROLL_LIBTORCH to one you have: a folder that holds include/ and lib/, a Python torch package, or a prefix such as /usr.",
  ].join("\n");
}

/** Whether libtorch would compute with the slow reference BLAS. Only a system package lies beside the system's BLAS. */
export function lacksFastBlas({ libDir }, { family }) {
  const blas = join(libDir, "libblas.so.3");
  if (family !== "debian" || !existsSync(blas)) return false;
  return !existsSync(join(libDir, "openblas-openmp")) && !/mkl|blis/.test(realpathSync(blas));
}

export async function installFastBlas({ log }) {
  await aptInstall([BLAS_PACKAGE], { log });
}

export function slowBlasWarning(system) {
  return `warning: libtorch computes with the reference BLAS, which is many times slower than need be. Install a fast one: ${installCommand(system, [BLAS_PACKAGE])}`;
}

/** The version apt would install, or null when its lists do not say. */
function aptCandidate() {
  const answer = spawnSync("apt-cache", ["policy", "libtorch-dev"], {
    encoding: "utf8",
    env: { ...process.env, LC_ALL: "C" },
  });
  return answer.stdout?.match(/Candidate: (\d\S*)/)?.[1] ?? null;
}
