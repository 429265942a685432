/**
 * Makes a checkout ready to run: npm packages, libtorch, the native addon, compiled TypeScript, the page of the dashboard.
 * Of an installed package only libtorch and the addon are left to do: `reroll setup` says where the addon goes.
 *
 * A step runs only when its inputs changed, so the script may stand before every command. It needs nothing but Node.
 */
import { existsSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { cachePlace, chooseAddon, findPrebuilt, placePrebuilt } from "./setup/addon-cache.mjs";
import { addonReason, buildAddon, checkoutPlace } from "./setup/build-addon.mjs";
import { buildDashboard, dashboardReason } from "./setup/build-dashboard.mjs";
import { checkNode, findMissingTools, installTools, missingToolsMessage } from "./setup/check-tools.mjs";
import { compileReason, compileTypescript } from "./setup/compile-typescript.mjs";
import { canFetchCudaHeaders, cudaHeaderPackages, fetchCudaHeaders } from "./setup/fetch-cuda-headers.mjs";
import { findCudaHeaders } from "./setup/find-cuda-headers.mjs";
import { findLibtorch } from "./setup/find-libtorch.mjs";
import {
  installFastBlas,
  installLibtorch,
  lacksFastBlas,
  missingLibtorchMessage,
  slowBlasWarning,
} from "./setup/install-libtorch.mjs";
import { installPackages, packagesReason } from "./setup/install-packages.mjs";
import { giveUpSandbox, installSandbox, lacksSandbox } from "./setup/install-sandbox.mjs";
import { withLock } from "./setup/lock.mjs";
import { SetupError } from "./setup/setup-error.mjs";
import { describeSystem } from "./setup/system.mjs";

const HELP = `Usage: node scripts/setup.mjs [--check] [--no-install]

Installs the npm packages, finds libtorch, builds the native addon, compiles the TypeScript and builds
the dashboard's page, each only when needed.

  --check        say what would be done, and do nothing
  --no-install   never install system packages (by default apt is used on Debian and Ubuntu, as root, for what is missing)
  --into <dir>   put the addon into this folder, one for each libtorch (for an installed package; "reroll setup" says it)
  --no-compile   take a prebuilt addon that fits, or fail
  --help         this text

REROLL_LIBTORCH names the libtorch to use: a folder that holds include/ and lib/, a Python torch package, or a prefix
such as /usr. Without it the active Python's torch is used, then the system's.`;

const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
const isCheckout = existsSync(join(root, "src"));
let into = null;

async function main(words) {
  const flags = readFlags(words);
  if (flags.help) return console.log(HELP);
  if (!isCheckout && flags.into === undefined) {
    throw new SetupError(`${root} is an installed package. In your project, run: npx reroll setup`);
  }
  into = flags.into === undefined ? null : resolve(flags.into);
  checkNode();
  const system = describeSystem({ allowInstall: !flags["no-install"] });
  if (flags.check) return printPlan(system);
  const start = performance.now();
  const work = into === null ? () => setUp(system) : () => setUpPackage(system, flags["no-compile"]);
  const target = await withLock(join(workFolder(), "setup.lock"), work, { onWait: sayWaiting });
  console.log(`ready: libtorch ${describeTarget(target)} (${secondsSince(start)})`);
}

function readFlags(words) {
  const booleans = ["check", "no-install", "no-compile", "help"];
  const options = Object.fromEntries(booleans.map((name) => [name, { type: "boolean", default: false }]));
  try {
    return parseArgs({ args: words, options: { ...options, into: { type: "string" } } }).values;
  } catch (error) {
    throw new SetupError(`${error.message}\n\n${HELP}`);
  }
}

async function setUp(system) {
  const packages = packagesReason(root);
  if (packages) await step("packages", `npm ci, ${packages}`, (log) => installPackages(root, { log }));

  const target = await provideTarget(system);
  if (lacksFastBlas(target.libtorch, system)) await provideFastBlas(system);
  if (lacksSandbox(root, system)) await provideSandbox(system);

  const addon = addonReason(placeOf(target), target);
  if (addon) await compileAddon(target, addon);

  const sources = compileReason(root);
  if (sources) await step("typescript", `tsc, ${sources}`, (log) => compileTypescript(root, { log }));

  const page = dashboardReason(root);
  if (page) await step("dashboard", `vite, ${page}`, (log) => buildDashboard(root, { log }));
  return target;
}

/** The addon alone, prebuilt where one fits. */
async function setUpPackage(system, neverCompile) {
  const found = findLibtorch().libtorch;
  const prebuilt = found && findPrebuilt(root, found);
  if (prebuilt) {
    const target = { libtorch: found, cudaInclude: found.cuda ? [] : null };
    placePrebuilt(prebuilt, placeOf(target), target);
    chooseAddon(into, placeOf(target));
    console.log(`${"native".padEnd(10)} prebuilt, from ${prebuilt}`);
    return target;
  }
  if (neverCompile) throw new SetupError("There is no prebuilt addon for the libtorch of this machine.");
  const target = await provideTarget(system);
  if (lacksFastBlas(target.libtorch, system)) await provideFastBlas(system);
  const place = placeOf(target);
  const addon = addonReason(place, target);
  if (addon) await compileAddon(target, "once per machine, libtorch and version");
  chooseAddon(into, place);
  return target;
}

function placeOf(target) {
  return into === null ? checkoutPlace(root) : cachePlace(root, into, target);
}

/** Logs and the lock lie in the checkout, or beside the addons. */
function workFolder() {
  return into ?? join(root, "build");
}

async function compileAddon(target, why) {
  await step("native", `cmake, ${why}`, (log, onProgress) => buildAddon(placeOf(target), target, { log, onProgress }));
}

/** What the addon is built for. CUDA headers that are missing are fetched; without them it is built for the CPU alone. */
async function provideTarget(system) {
  const libtorch = await provideLibtorchAndTools(system);
  const target = targetOf(libtorch);
  if (!libtorch.cuda || target.cudaInclude !== null || !canFetchCudaHeaders(libtorch)) return target;
  const folder = headersFolder(libtorch);
  try {
    await step("cuda", "pip, headers for CUDA without a toolkit", (log) => fetchCudaHeaders(folder, libtorch, { log }));
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
  }
  return targetOf(libtorch);
}

function headersFolder({ cudaVersion }) {
  return join(workFolder(), `cuda-headers-${cudaVersion}`);
}

/** Out: libtorch. Everything that is missing is reported at once, so that one command line of the user settles it. */
async function provideLibtorchAndTools(system) {
  const { libtorch, looked } = findLibtorch();
  const missingTools = findMissingBuildTools(libtorch);
  if (!system.mayInstall && (missingTools.length > 0 || libtorch === null)) {
    throw new SetupError(describeMissing({ libtorch, looked, missingTools }, system).join("\n\n"));
  }
  if (missingTools.length > 0) {
    const what = `apt-get install, not found: ${missingTools.join(", ")}`;
    await step("tools", what, (log) => installTools(missingTools, { system, log }));
  }
  if (libtorch !== null) return libtorch;
  await step("libtorch", "apt-get install, none found", (log) => installLibtorch({ system, looked, log }));
  const installed = findLibtorch();
  if (installed.libtorch === null) {
    throw new SetupError(missingLibtorchMessage(installed.looked, { ...system, family: "other" }));
  }
  return installed.libtorch;
}

/** An addon that is current needs no compiler. */
function findMissingBuildTools(libtorch) {
  return libtorch !== null && addonReason(placeOf(targetOf(libtorch)), targetOf(libtorch)) === null
    ? []
    : findMissingTools();
}

function describeMissing({ libtorch, looked, missingTools }, system) {
  return [
    ...(missingTools.length > 0 ? [missingToolsMessage(missingTools, system)] : []),
    ...(libtorch === null ? [missingLibtorchMessage(looked, system)] : []),
  ];
}

/** A slow BLAS is no reason to stop, so a failure here is a warning. */
async function provideFastBlas(system) {
  if (!system.mayInstall) return console.warn(slowBlasWarning(system));
  try {
    await step("blas", "apt-get install, only the slow reference one found", (log) => installFastBlas({ log }));
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    console.warn(slowBlasWarning(system));
  }
}

/** Only code rewards need it, so a failure here is a warning. */
async function provideSandbox(system) {
  try {
    await step("sandbox", "apt-get install, bubblewrap not found", (log) => installSandbox({ log }));
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    console.warn(giveUpSandbox(root, system));
  }
}

function targetOf(libtorch) {
  return {
    libtorch,
    cudaInclude: libtorch.cuda ? findCudaHeaders(libtorch, { fetched: headersFolder(libtorch) }) : null,
  };
}

function describeTarget({ libtorch, cudaInclude }) {
  const where = `${libtorch.version} at ${libtorch.root}`;
  if (!libtorch.cuda) return `${where}, CPU`;
  if (cudaInclude !== null) return `${where}, CPU and CUDA`;
  const { cudaVersion } = libtorch;
  const packages = cudaVersion === null ? [] : cudaHeaderPackages(cudaVersion).map((name) => `"${name}"`);
  const pip = cudaVersion === null ? "" : `, or run: python3 -m pip install ${packages.join(" ")}`;
  return `${where}, CPU only: it has CUDA, but not all CUDA headers were found. Set CUDA_HOME to a CUDA toolkit${pip}`;
}

function printPlan(system) {
  const { libtorch, looked } = findLibtorch();
  const missing = describeMissing({ libtorch, looked, missingTools: findMissingBuildTools(libtorch) }, system);
  const packages = packagesReason(root);
  const target = libtorch && targetOf(libtorch);
  const addon = target === null ? "there is no libtorch yet" : addonReason(placeOf(target), target);
  if (isCheckout) printPlanLine("packages", packages && `npm ci would run: ${packages}`);
  printPlanLine("libtorch", target ? describeTarget(target) : "not found");
  if (libtorch && lacksFastBlas(libtorch, system)) console.log(slowBlasWarning(system));
  printPlanLine(
    "native",
    addon && (libtorch && findPrebuilt(root, libtorch) ? "prebuilt" : `cmake would run: ${addon}`),
  );
  if (isCheckout) {
    const sources = compileReason(root);
    printPlanLine("typescript", sources && `tsc would run: ${sources}`);
    const page = dashboardReason(root);
    printPlanLine("dashboard", page && `vite would run: ${page}`);
  }
  if (missing.length === 0) return;
  console.log(system.mayInstall ? "\napt-get would install what is missing here:" : "");
  console.log(missing.join("\n\n"));
}

function printPlanLine(name, text) {
  console.log(`${name.padEnd(10)} ${text ?? "current"}`);
}

/** Runs one step with a log of its own, and prints what and why before it and the time after it; on a terminal also how far it is. */
async function step(name, what, work) {
  const start = performance.now();
  const line = `${name.padEnd(10)} ${what} ... `;
  process.stdout.write(line);
  const onProgress = process.stdout.isTTY
    ? (done) => process.stdout.write(`\r${line}${done ?? ""} ${secondsSince(start)}\u001b[K`)
    : undefined;
  const end = (text) => console.log(onProgress === undefined ? text : `\r${line}${text}\u001b[K`);
  try {
    await work(logPath(name), onProgress);
  } catch (error) {
    end("failed");
    throw error;
  }
  end(secondsSince(start));
}

/** As a person would type it: short where it lies below this folder. */
function logPath(name) {
  const path = join(workFolder(), `${name}.log`);
  const short = relative(process.cwd(), path);
  return short.startsWith("..") ? path : short;
}

function sayWaiting(pid) {
  console.log(`waiting for another setup of this folder to finish${pid === null ? "" : ` (process ${pid})`}`);
}

function secondsSince(start) {
  return `${((performance.now() - start) / 1000).toFixed(1)} s`;
}

// An exit, and not only a signal, so that the lock is released and a running step is ended.
process.once("SIGINT", () => process.exit(130));
process.once("SIGTERM", () => process.exit(143));

main(process.argv.slice(2)).catch((error) => {
  console.error(error instanceof SetupError ? error.message : error);
  process.exitCode = 1;
});
