/**
 * Gets the CUDA headers that the Python packages beside torch lack, where no CUDA toolkit is installed.
 *
 * They come with pip, from the packages that CUDA's own compiler is made of, in the version of libtorch's CUDA, and go into a folder of
 * ours: the Python environment of the user stays as it is. Three megabytes.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { findExecutable } from "./find-executable.mjs";
import { runCommand } from "./run-command.mjs";

/** Whether fetching could make the headers beside torch complete. */
export function canFetchCudaHeaders({ root, cudaVersion }) {
  return cudaVersion !== null && existsSync(join(dirname(root), "nvidia")) && findPython() !== null;
}

/** Fills the folder. */
export async function fetchCudaHeaders(folder, { cudaVersion }, { log, run = runCommand }) {
  const packages = cudaHeaderPackages(cudaVersion);
  await run(findPython(), ["-m", "pip", "install", "--no-deps", "--upgrade", "--target", folder, ...packages], { log });
}

/** The packages that hold them. Up to CUDA 12 the name of a package says its CUDA, and the headers of the compiler come with it. */
export function cudaHeaderPackages(cudaVersion) {
  const [major, minor = "0"] = cudaVersion.split(".");
  const names =
    Number(major) >= 13
      ? ["nvidia-cuda-crt", "nvidia-cuda-cccl"]
      : [`nvidia-cuda-nvcc-cu${major}`, `nvidia-cuda-cccl-cu${major}`];
  return names.map((name) => `${name}==${major}.${minor}.*`);
}

function findPython() {
  return findExecutable("python3") ?? findExecutable("python");
}
