/**
 * Reads what a libtorch in a folder is.
 *
 * In: a folder that may hold one: an unpacked libtorch, a Python torch package, or a prefix such as /usr.
 * Out: `{ libtorch }`, or `{ problem }` that says in a few words why the folder will not do.
 * Everything is read as files; neither Python's torch nor the libraries are loaded.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/** The oldest libtorch the addon is written for. */
export const OLDEST_VERSION = "1.13";

const MULTIARCH = { x64: "x86_64-linux-gnu", arm64: "aarch64-linux-gnu", ppc64: "powerpc64le-linux-gnu" };
const LIBRARY_SUFFIX = process.platform === "darwin" ? ".dylib" : ".so";
const API_INCLUDE = "torch/csrc/api/include";

export function readLibtorch(root) {
  if (!isFolder(root)) return { problem: "no such folder" };
  const include = join(root, "include");
  if (!existsSync(join(include, "ATen/core/dispatch/Dispatcher.h"))) return { problem: "no headers (include/ATen)" };
  const library = `libtorch_cpu${LIBRARY_SUFFIX}`;
  const libFolders = ["lib", `lib/${MULTIARCH[process.arch]}`, "lib64"];
  const libDir = libFolders.map((folder) => join(root, folder)).find((folder) => existsSync(join(folder, library)));
  if (libDir === undefined) return { problem: `no ${library} in ${libFolders.join(", ")}` };
  const version = readVersion(root, include);
  if (version === null) return { problem: "its version cannot be read (no version.py, no torch/version.h)" };
  if (isOlder(version, OLDEST_VERSION)) return { problem: `version ${version} is older than ${OLDEST_VERSION}` };
  const config = readFirst([`${root}/share/cmake/Torch/TorchConfig.cmake`, `${libDir}/cmake/Torch/TorchConfig.cmake`]);
  return {
    libtorch: {
      root,
      includeDirs: [include, join(include, API_INCLUDE)],
      libDir,
      version,
      cuda: existsSync(join(libDir, `libtorch_cuda${LIBRARY_SUFFIX}`)),
      cudaVersion: readFirst([`${root}/version.py`])?.match(/^cuda\b.*= *'([\d.]+)'/m)?.[1] ?? null,
      cxx11Abi: readCxx11Abi({ config, libDir, version }),
      cxxStandard: readCxxStandard(config, include),
    },
  };
}

/** The cmake files of most versions name the C++ standard, and the headers that refuse an older one say it in every version. */
function readCxxStandard(config, include) {
  const refusal = readFirst([join(include, "ATen/ATen.h")])?.match(/#error C\+\+(\d+) or later/);
  return Math.max(17, ...[config?.match(/\bCXX_STANDARD (\d+)/), refusal].map((found) => Number(found?.[1] ?? 17)));
}

/** Compares the leading numbers of two versions: isOlder("1.8.1", "1.13") is true. */
export function isOlder(version, than) {
  const [left, right] = [version, than].map((text) => text.split(/[.+]/).map((part) => Number.parseInt(part, 10) || 0));
  for (let index = 0; index < right.length; index++) {
    const difference = (left[index] ?? 0) - right[index];
    if (difference !== 0) return difference < 0;
  }
  return false;
}

function readVersion(root, include) {
  const python = readFirst([`${root}/version.py`])?.match(/^__version__ *(?::.*)?= *['"]([^'"]+)['"]/m);
  if (python) return python[1];
  const archive = readFirst([`${root}/build-version`])?.trim();
  if (archive) return archive;
  // Since 2.8 the first header only includes the second.
  const headers = [`${include}/${API_INCLUDE}/torch/version.h`, `${include}/torch/headeronly/version.h`];
  for (const header of headers) {
    const match = readFirst([header])?.match(/#define TORCH_VERSION\s*\\?\s*"([^"]+)"/);
    if (match) return match[1];
  }
  return null;
}

/**
 * Whether libtorch was built with the C++11 ABI of libstdc++. The addon must be built alike, or it does not load.
 * Newer TorchConfig files no longer name the flag; then a mangled std::string in a symbol of libc10 tells.
 */
function readCxx11Abi({ config, libDir, version }) {
  const flag = config?.match(/_GLIBCXX_USE_CXX11_ABI=([01])/);
  if (flag) return flag[1] === "1";
  const symbols = readFirst([join(libDir, `libc10${LIBRARY_SUFFIX}`)], "latin1") ?? "";
  if (symbols.includes("_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx11")) return true;
  if (symbols.includes("_ZN3c105ErrorC1ENS_14SourceLocationESs")) return false;
  return !isOlder(version, "2.6");
}

function readFirst(files, encoding = "utf8") {
  const file = files.find((candidate) => existsSync(candidate));
  return file === undefined ? null : readFileSync(file, encoding);
}

function isFolder(path) {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
