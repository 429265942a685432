import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

// The modules are plain JavaScript because they run before anything is installed; so they are loaded without types.
const load = (name: string) => import(new URL(`../../scripts/setup/${name}.mjs`, import.meta.url).href);
const { findLibtorch, askActivePython } = await load("find-libtorch");
const { isOlder } = await load("read-libtorch");
const { findCudaHeaders } = await load("find-cuda-headers");
const { installLibtorch, lacksFastBlas, missingLibtorchMessage } = await load("install-libtorch");
const { giveUpSandbox, lacksSandbox } = await load("install-sandbox");
const { checkNode, findMissingTools, missingToolsMessage } = await load("check-tools");
const { aptInstall, describeSystem } = await load("system");
const { packagesReason } = await load("install-packages");
const { addonReason, checkoutPlace, configureArguments } = await load("build-addon");
const { cudaHeaderPackages, fetchCudaHeaders } = await load("fetch-cuda-headers");
const { hashInputs, listFiles } = await load("stamp");
const { runCommand } = await load("run-command");

const debian = describeSystem({ platform: "linux", userId: 1000, osRelease: "ID=debian\n" });
const debianRoot = describeSystem({ platform: "linux", userId: 0, osRelease: "ID=debian\n" });
const multiarch = { x64: "x86_64-linux-gnu", arm64: "aarch64-linux-gnu" }[process.arch as "x64" | "arm64"];
const suffix = process.platform === "darwin" ? ".dylib" : ".so";
let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "reroll-setup-"));
});
afterEach(() => rmSync(root, { recursive: true }));

function write(files: Record<string, string>): void {
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
}

/** A torch package as pip unpacks it. */
function writeWheel(folder: string, files: Record<string, string> = {}): string {
  const wheel = {
    "__init__.py": "raise SystemExit('the setup must not import torch')\n",
    "version.py": "__version__ = '2.11.0+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\n",
    "include/ATen/core/dispatch/Dispatcher.h": "",
    "include/torch/csrc/api/include/torch/version.h": "#include <torch/headeronly/version.h>\n",
    [`lib/libtorch_cpu${suffix}`]: "",
    [`lib/libc10${suffix}`]: "\0_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_string\0",
    "share/cmake/Torch/TorchConfig.cmake": "set_target_properties(torch PROPERTIES CXX_STANDARD 17)\n",
    ...files,
  };
  write(Object.fromEntries(Object.entries(wheel).map(([file, text]) => [`${folder}/${file}`, text])));
  return join(root, folder);
}

/** A prefix as Debian's libtorch-dev fills it. */
function writePrefix(folder: string, version = "1.13.1"): string {
  const files = {
    "include/ATen/core/dispatch/Dispatcher.h": "",
    "include/torch/csrc/api/include/torch/version.h": `#define TORCH_VERSION_MAJOR 1\n#define TORCH_VERSION \\\n  "${version}"\n`,
    [`lib/${multiarch}/libtorch_cpu${suffix}`]: "",
    [`lib/${multiarch}/cmake/Torch/TorchConfig.cmake`]:
      'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")\nCXX_STANDARD 14\n',
  };
  write(Object.fromEntries(Object.entries(files).map(([file, text]) => [`${folder}/${file}`, text])));
  return join(root, folder);
}

const noPython = () => ({ root: null, note: "Python: none" });

describe("finding libtorch", () => {
  test("a Python wheel is read from its files", () => {
    const wheel = writeWheel("torch", { [`lib/libtorch_cuda${suffix}`]: "" });
    const { libtorch } = findLibtorch({ env: {}, askPython: () => ({ root: wheel, note: null }), prefixes: [] });
    expect(libtorch).toEqual({
      origin: "python",
      root: wheel,
      includeDirs: [join(wheel, "include"), join(wheel, "include/torch/csrc/api/include")],
      libDir: join(wheel, "lib"),
      version: "2.11.0+cu130",
      cuda: true,
      cudaVersion: "13.0",
      cxx11Abi: true,
      cxxStandard: 17,
    });
  });

  test("the C++ standard is the one that the headers insist on, where cmake files do not say it", () => {
    const wheel = writeWheel("newer", {
      "include/ATen/ATen.h": "#error C++20 or later compatible compiler is required to use ATen.\n",
      "share/cmake/Torch/TorchConfig.cmake": "target_compile_features(torch INTERFACE cxx_std_20)\n",
    });
    const { libtorch } = findLibtorch({ env: { REROLL_LIBTORCH: wheel } });
    expect(libtorch).toMatchObject({ cxxStandard: 20 });
  });

  test("the system package is read from a prefix with a multiarch folder", () => {
    const prefix = writePrefix("usr");
    const { libtorch } = findLibtorch({ env: {}, askPython: noPython, prefixes: [prefix] });
    expect(libtorch).toMatchObject({
      origin: "system",
      version: "1.13.1",
      libDir: join(prefix, "lib", multiarch),
      cuda: false,
      cxx11Abi: true,
      cxxStandard: 17,
    });
  });

  test("the named folder comes before Python's torch, and that before the system's", () => {
    const named = writeWheel("named");
    const wheel = writeWheel("torch");
    const options = { askPython: () => ({ root: wheel, note: null }), prefixes: [writePrefix("usr")] };
    expect(findLibtorch({ env: { REROLL_LIBTORCH: named }, ...options }).libtorch.origin).toBe("REROLL_LIBTORCH");
    expect(findLibtorch({ env: {}, ...options }).libtorch.origin).toBe("python");
    expect(findLibtorch({ env: {}, ...options, askPython: noPython }).libtorch.origin).toBe("system");
  });

  test("a named prefix such as /usr will do", () => {
    const { libtorch } = findLibtorch({ env: { REROLL_LIBTORCH: writePrefix("usr") }, askPython: noPython });
    expect(libtorch).toMatchObject({ origin: "REROLL_LIBTORCH", version: "1.13.1" });
  });

  test("a named folder without libtorch is an error and not a reason to look elsewhere", () => {
    mkdirSync(join(root, "nonsense"));
    const find = (folder: string) => () =>
      findLibtorch({ env: { REROLL_LIBTORCH: folder }, askPython: noPython, prefixes: [writePrefix("usr")] });
    expect(find(join(root, "nonsense"))).toThrow(
      /REROLL_LIBTORCH does not name a libtorch: .*nonsense: no headers \(include\/ATen\)\. It must be a folder that holds include\/ and lib\//,
    );
    expect(find(join(root, "missing"))).toThrow(/missing: no such folder/);
  });

  test("a torch package without headers is passed over, and the search says so", () => {
    const wheel = writeWheel("torch");
    rmSync(join(wheel, "include"), { recursive: true });
    const { libtorch, looked } = findLibtorch({
      env: {},
      askPython: () => ({ root: wheel, note: null }),
      prefixes: [],
    });
    expect(libtorch).toBeNull();
    expect(looked).toEqual(["REROLL_LIBTORCH: not set", `${wheel}: no headers (include/ATen)`]);
  });

  test("a libtorch older than 1.13 is passed over", () => {
    const prefix = writePrefix("usr", "1.8.1");
    const { libtorch, looked } = findLibtorch({ env: {}, askPython: noPython, prefixes: [prefix] });
    expect(libtorch).toBeNull();
    expect(looked).toContain(`${prefix}: version 1.8.1 is older than 1.13`);
  });

  test("the ABI of an old wheel is read from a symbol when its configuration does not name it", () => {
    const wheel = writeWheel("torch", {
      "version.py": "__version__ = '2.4.0'\n",
      [`lib/libc10${suffix}`]: "\0_ZN3c105ErrorC1ENS_14SourceLocationESs\0",
    });
    expect(findLibtorch({ env: { REROLL_LIBTORCH: wheel } }).libtorch).toMatchObject({ cxx11Abi: false, cuda: false });
  });

  test("the version of a newer libtorch without version.py is in the second header", () => {
    const folder = writeWheel("libtorch", {
      "include/torch/headeronly/version.h": '#define TORCH_VERSION \\\n  "2.11.0"\n',
    });
    rmSync(join(folder, "version.py"));
    expect(findLibtorch({ env: { REROLL_LIBTORCH: folder } }).libtorch.version).toBe("2.11.0");
  });

  test("versions compare by number", () => {
    expect(isOlder("1.8.1", "1.13")).toBe(true);
    expect(isOlder("1.13.1+dfsg-4", "1.13")).toBe(false);
    expect(isOlder("2.0", "1.13")).toBe(false);
  });
});

const hasPython = spawnSync("python3", ["--version"]).status === 0;

describe.skipIf(!hasPython)("asking Python", () => {
  const ask = (...folders: string[]) => askActivePython({ PATH: process.env.PATH, PYTHONPATH: folders.join(":") });

  test("the package is found without importing it", () => {
    const wheel = writeWheel("site/torch");
    expect(ask(join(root, "site"))).toEqual({ root: wheel, note: null });
  });

  test("a plain folder named torch is not the package, even with include and lib in it", () => {
    const wheel = writeWheel("site/torch");
    rmSync(join(wheel, "__init__.py"));
    // On a machine with PyTorch the answer is that one.
    const answer = ask(join(root, "site"));
    expect(answer.root).not.toBe(wheel);
    if (answer.root === null) expect(answer.note).toContain("its torch is a plain folder or file");
  });

  test("a plain folder named torch does not hide the package behind it", () => {
    mkdirSync(join(root, "trap/torch"), { recursive: true });
    const wheel = writeWheel("site/torch");
    expect(ask(join(root, "trap"), join(root, "site")).root).toBe(wheel);
  });
});

test("without Python in PATH the search goes on and says so", () => {
  expect(askActivePython({ PATH: root })).toEqual({
    root: null,
    note: "Python: neither python3 nor python is in PATH",
  });
});

describe("finding the CUDA headers", () => {
  const options = () => ({ env: { PATH: root }, defaultRoot: join(root, "cuda") });
  const toolkit = (folder: string, version: number) => ({
    [`${folder}/include/cuda_runtime_api.h`]: `#define CUDART_VERSION  ${version}\n`,
    [`${folder}/include/crt/host_defines.h`]: "",
    [`${folder}/include/nv/target`]: "",
  });

  test("the toolkit of libtorch's own CUDA version is preferred, and NCCL's headers come along", () => {
    write({ ...toolkit("cuda-12", 12080), ...toolkit("cuda", 13000), "site/nvidia/nccl/include/nccl.h": "" });
    const libtorch = { root: join(root, "site/torch"), cudaVersion: "13.0" };
    const env = { PATH: root, CUDA_HOME: join(root, "cuda-12") };
    expect(findCudaHeaders(libtorch, { ...options(), env })).toEqual([
      join(root, "cuda/include"),
      join(root, "site/nvidia/nccl/include"),
    ]);
  });

  test("the headers beside torch serve once those of the compiler and the core libraries lie there too", () => {
    const libtorch = { root: join(root, "site/torch"), cudaVersion: "13.0" };
    write({ "site/nvidia/cu13/include/cuda_runtime_api.h": "#define CUDART_VERSION  13000\n" });
    expect(findCudaHeaders(libtorch, options())).toBeNull();
    write({ "site/nvidia/cu13/include/crt/host_defines.h": "" });
    expect(findCudaHeaders(libtorch, options())).toBeNull();
    write({ "site/nvidia/cu13/include/nv/target": "" });
    expect(findCudaHeaders(libtorch, options())).toEqual([join(root, "site/nvidia/cu13/include")]);
  });

  test("what the packages beside torch lack is taken from the folder that pip filled, as CUDA 12 lays it out", () => {
    const libtorch = { root: join(root, "site/torch"), cudaVersion: "12.8" };
    write({
      "site/nvidia/cuda_runtime/include/cuda_runtime_api.h": "#define CUDART_VERSION  12080\n",
      "fetched/nvidia/cuda_nvcc/include/crt/host_defines.h": "",
      "fetched/nvidia/cuda_cccl/include/nv/target": "",
    });
    expect(findCudaHeaders(libtorch, options())).toBeNull();
    expect(findCudaHeaders(libtorch, { ...options(), fetched: join(root, "fetched") })).toEqual([
      join(root, "site/nvidia/cuda_runtime/include"),
      join(root, "fetched/nvidia/cuda_cccl/include"),
      join(root, "fetched/nvidia/cuda_nvcc/include"),
    ]);
  });

  test("pip is asked for the packages of libtorch's own CUDA, into a folder of ours", async () => {
    const calls: string[][] = [];
    const run = async (_: string, words: string[]) => void calls.push(words);
    await fetchCudaHeaders("headers", { cudaVersion: "13.0" }, { log: "cuda.log", run });
    expect(calls).toEqual([
      "-m pip install --no-deps --upgrade --target headers nvidia-cuda-crt==13.0.* nvidia-cuda-cccl==13.0.*".split(" "),
    ]);
    expect(cudaHeaderPackages("12.8")).toEqual(["nvidia-cuda-nvcc-cu12==12.8.*", "nvidia-cuda-cccl-cu12==12.8.*"]);
  });
});

describe("what the setup says when something is missing", () => {
  const looked = ["REROLL_LIBTORCH: not set", "/usr: no headers (include/ATen)"];

  test("a user of Debian who is not root gets the whole command", () => {
    expect(missingLibtorchMessage(looked, debian)).toBe(
      [
        "libtorch was not found. We looked at:",
        "  REROLL_LIBTORCH: not set",
        "  /usr: no headers (include/ATen)",
        "Install it, then run the setup again:",
        "  sudo apt-get update && sudo apt-get install -y --no-install-recommends libtorch-dev libopenblas0-openmp",
        "  or, for CUDA:",
        "  python3 -m venv .venv && . .venv/bin/activate && python3 -m pip install torch",
        "Or set REROLL_LIBTORCH to one you have: a folder that holds include/ and lib/, a Python torch package, or a prefix such as /usr.",
      ].join("\n"),
    );
  });

  test("elsewhere the advice is Python's torch, and no apt", () => {
    const macos = describeSystem({ platform: "darwin", userId: 501, osRelease: "" });
    expect(missingLibtorchMessage(looked, macos)).toContain("pip install torch");
    expect(missingLibtorchMessage(looked, macos)).not.toContain("apt-get");
  });

  test("only root on Debian or Ubuntu may install, and not with --no-install", () => {
    const mayInstall = (id: string, userId: number, allowInstall = true) =>
      describeSystem({ platform: "linux", userId, osRelease: `NAME="x"\n${id}\n`, allowInstall }).mayInstall;
    expect(mayInstall("ID=debian", 0)).toBe(true);
    expect(mayInstall('ID=linuxmint\nID_LIKE="ubuntu debian"', 0)).toBe(true);
    expect(mayInstall("ID=debian", 1000)).toBe(false);
    expect(mayInstall("ID=fedora", 0)).toBe(false);
    expect(mayInstall("ID=debian", 0, false)).toBe(false);
  });

  test("missing tools come with the install command of the system", () => {
    const fedora = describeSystem({ platform: "linux", userId: 1000, osRelease: "ID=fedora\n" });
    const macos = describeSystem({ platform: "darwin", userId: 501, osRelease: "" });
    expect(findMissingTools({ PATH: root })).toEqual(["cmake", "compiler", "builder"]);
    expect(missingToolsMessage(["cmake", "compiler"], debian)).toBe(
      "Not found in PATH: cmake, a C++ compiler. Install with:\n" +
        "  sudo apt-get update && sudo apt-get install -y --no-install-recommends cmake g++",
    );
    expect(missingToolsMessage(["compiler"], fedora)).toContain("sudo dnf install -y gcc-c++");
    expect(missingToolsMessage(["cmake", "compiler"], macos)).toMatch(
      /xcode-select --install\n {2}brew install cmake$/,
    );
  });

  test("a Node older than 20 is named with its version", () => {
    expect(() => checkNode("18.19.0")).toThrow(/^Node 18\.19\.0 is too old\. reroll needs Node 20 or later/);
    checkNode("20.0.0");
  });

  test("a command that fails shows the end of its log", async () => {
    const log = join(root, "build/native.log");
    const program = "for (let i = 1; i <= 60; i++) console.log('line ' + i); process.exit(3)";
    const failure = await runCommand(process.execPath, ["-e", program], { log }).catch((error: Error) => error.message);
    expect(failure).toContain("failed: exit status 3.\nThe last 40 lines of");
    expect(failure).toContain("\n  line 21\n");
    expect(failure).not.toContain("line 20\n");
  });
});

describe("installing with apt", () => {
  test("the lists are fetched only when the first try fails", async () => {
    const calls: string[] = [];
    const runs = (failures: number) => async (_: string, args: string[]) => {
      calls.push(args.find((word) => word === "install" || word === "update") ?? "?");
      if (calls.length <= failures) throw new Error("no such package");
    };
    await aptInstall(["libtorch-dev"], { log: "unused", run: runs(0) });
    expect(calls.splice(0)).toEqual(["install"]);
    await aptInstall(["libtorch-dev"], { log: "unused", run: runs(1) });
    expect(calls.splice(0)).toEqual(["install", "update", "install"]);
  });

  test("a system whose libtorch is too old is not touched", async () => {
    const install = () => {
      throw new Error("apt must not run");
    };
    const attempt = installLibtorch({ system: debianRoot, looked: [], log: "unused", install, candidate: "1.8.1-5" });
    await expect(attempt).rejects.toThrow(/libtorch-dev of this system: version 1\.8\.1-5 is older than 1\.13/);
  });

  test("the reference BLAS beside a system libtorch is noticed", () => {
    write({ "lib/libblas.so.3": "" });
    expect(lacksFastBlas({ libDir: join(root, "lib") }, debian)).toBe(true);
    mkdirSync(join(root, "lib/openblas-openmp"));
    expect(lacksFastBlas({ libDir: join(root, "lib") }, debian)).toBe(false);
    expect(lacksFastBlas({ libDir: join(root, "wheel/lib") }, debian)).toBe(false);
  });
});

describe("what is current", () => {
  const lockFile = (version: string) =>
    JSON.stringify({
      packages: {
        "": { name: "reroll" },
        "node_modules/zod": { version },
        "node_modules/binary-for-here": {
          version: "1.0.0",
          optional: true,
          os: [process.platform],
          cpu: [process.arch],
        },
        "node_modules/binary-for-elsewhere": { version: "1.0.0", optional: true, os: ["aix"], cpu: ["ppc64"] },
      },
    });
  const installed = (packages: object) => ({ "node_modules/.package-lock.json": JSON.stringify({ packages }) });
  const here = { "node_modules/binary-for-here": { version: "1.0.0" } };

  test("packages that npm installed from this lock file are left alone", () => {
    write({
      "package-lock.json": lockFile("4.6.7"),
      ...installed({ "node_modules/zod": { version: "4.6.7" }, ...here }),
    });
    expect(packagesReason(root)).toBeNull();
  });

  test("another version, a missing binary, a leftover or an unfinished install is a reason for npm ci", () => {
    write({ "package-lock.json": lockFile("4.6.7") });
    expect(packagesReason(root)).toBe("there is no node_modules");
    mkdirSync(join(root, "node_modules"));
    expect(packagesReason(root)).toBe("an earlier install did not finish");
    write(installed({ "node_modules/zod": { version: "4.6.6" }, ...here }));
    expect(packagesReason(root)).toBe("node_modules/zod is not as in package-lock.json");
    write(installed({ "node_modules/zod": { version: "4.6.7" } }));
    expect(packagesReason(root)).toBe("node_modules/binary-for-here is not as in package-lock.json");
    write(installed({ "node_modules/zod": { version: "4.6.7" }, ...here, "node_modules/old": { version: "1.0.0" } }));
    expect(packagesReason(root)).toBe("node_modules/old is not as in package-lock.json");
  });

  test("a published package, which has no lock file, needs no npm", () => {
    expect(packagesReason(root)).toBeNull();
  });

  test("the addon is built when it is missing, unfinished, or made for another libtorch", () => {
    const { libtorch } = findLibtorch({ env: { REROLL_LIBTORCH: writeWheel("torch") } });
    const target = { libtorch, cudaInclude: null };
    write({ "native/a.cc": "", "node_modules/node-api-headers/package.json": '{"version":"1.9.0"}' });
    expect(addonReason(checkoutPlace(root), target)).toBe("build/native/reroll.node is missing");
    write({ "build/native/reroll.node": "", "build/native/environment.node": "", "build/native/signals.node": "" });
    expect(addonReason(checkoutPlace(root), target)).toBe("an earlier build did not finish");
    write({ "build/native/libtorch.json": JSON.stringify({ version: "1.13.1", root: "/usr" }) });
    expect(addonReason(checkoutPlace(root), target)).toBe(`libtorch is now 2.11.0+cu130 at ${join(root, "torch")}`);
  });

  test("a hash follows names and contents, and not the times of files", () => {
    write({ "a/b.cc": "1", "a/c/d.cc": "2" });
    const hash = () => hashInputs(join(root, "a"), listFiles(join(root, "a")));
    const before = hash();
    utimesSync(join(root, "a/b.cc"), new Date(0), new Date(0));
    expect(hash()).toBe(before);
    write({ "a/b.cc": "3" });
    expect(hash()).not.toBe(before);
  });
});

test("cmake is told everything about libtorch", () => {
  write({ "node_modules/node-api-headers/package.json": "{}" });
  const libtorch = { includeDirs: ["/t/include", "/t/api"], libDir: "/t/lib", cxx11Abi: false, cxxStandard: 17 };
  const words = configureArguments(
    checkoutPlace(root),
    { libtorch, cudaInclude: ["/cuda/include", "/nccl/include"] },
    { generator: "Ninja" },
  );
  expect(words).toEqual(
    expect.arrayContaining([
      "Ninja",
      "-DREROLL_TORCH_INCLUDE=/t/include;/t/api",
      "-DREROLL_TORCH_LIB=/t/lib",
      "-DREROLL_RPATH=/t/lib",
      "-DREROLL_CXX11_ABI=0",
      "-DREROLL_CUDA=ON",
      "-DREROLL_CUDA_INCLUDE=/cuda/include;/nccl/include",
      `-DREROLL_NAPI_INCLUDE=${join(root, "node_modules/node-api-headers/include")}`,
    ]),
  );
});

test("the sandbox of code rewards is installed where we may, and not tried again after a failure", () => {
  write({ "build/.keep": "" });
  const nothing = () => null;
  expect(lacksSandbox(root, debianRoot, nothing)).toBe(true);
  expect(lacksSandbox(root, debian, nothing)).toBe(false);
  expect(lacksSandbox(root, debianRoot, (name: string) => `/usr/bin/${name}`)).toBe(false);
  expect(giveUpSandbox(root, debianRoot)).toMatch(/rewards cannot run Python programs.*apt-get install.*bubblewrap/);
  expect(lacksSandbox(root, debianRoot, nothing)).toBe(false);
});
