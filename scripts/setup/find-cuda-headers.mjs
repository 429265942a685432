/**
 * Finds the CUDA headers that libtorch's own CUDA headers include.
 *
 * Out: include folders, or null. A CUDA toolkit has them all. Without one, the Python packages beside torch have nearly all: what they
 * lack are the headers of the compiler (crt) and of the C++ core libraries (nv), which are two small packages more. Those may lie
 * beside torch too, or in a folder of ours that `fetchCudaHeaders` fills. Of several, one of the CUDA version libtorch was built with
 * comes first.
 */
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { findExecutable } from "./find-executable.mjs";

const NEEDED_HEADERS = ["cuda_runtime_api.h", "crt/host_defines.h", "nv/target"];

/** `fetched` is the folder that `fetchCudaHeaders` filled, if it did. */
export function findCudaHeaders(libtorch, { env = process.env, defaultRoot = "/usr/local/cuda", fetched = null } = {}) {
  const beside = includesOf(join(dirname(libtorch.root), "nvidia"));
  const nvcc = findExecutable("nvcc", env);
  const toolkits = [env.CUDA_HOME, env.CUDA_PATH, defaultRoot, nvcc && dirname(dirname(realpathSync(nvcc)))]
    .filter((root) => typeof root === "string" && root !== "")
    .map((root) => join(root, "include"));
  // The pip packages come along in every case: they hold the headers of the NCCL that torch was built with.
  const candidates = [...new Set(toolkits)].map((folder) => [
    folder,
    ...[join(folder, "cccl")].filter((inner) => existsSync(inner)),
    ...beside.filter(isSeparateLibrary),
  ]);
  const packages = [...beside, ...(fetched === null ? [] : includesOf(join(fetched, "nvidia")))];
  const complete = [...candidates, beside, packages].filter(isComplete);
  const wanted = libtorch.cudaVersion && Number.parseInt(libtorch.cudaVersion, 10);
  return complete.find((folders) => majorVersion(folders) === wanted) ?? complete[0] ?? null;
}

/** pip lays the CUDA libraries out as nvidia/<library>/include. */
function includesOf(packages) {
  if (!existsSync(packages)) return [];
  const folders = readdirSync(packages).sort();
  return folders.map((name) => join(packages, name, "include")).filter((folder) => existsSync(folder));
}

function isSeparateLibrary(folder) {
  return /\/(nccl|cudnn)\/include$/.test(folder);
}

function isComplete(folders) {
  return NEEDED_HEADERS.every((header) => findHeader(folders, header) !== undefined);
}

function majorVersion(folders) {
  const header = readFileSync(findHeader(folders, "cuda_runtime_api.h"), "utf8");
  return Math.floor(Number(header.match(/#define CUDART_VERSION\s+(\d+)/)?.[1] ?? 0) / 1000);
}

function findHeader(folders, header) {
  return folders.map((folder) => join(folder, header)).find((file) => existsSync(file));
}
