/**
 * Makes a checkout ready to run: npm packages, libtorch, the native addon, compiled TypeScript, the page of the dashboard.
 *
 * A step runs only when its inputs changed, so the script may stand before every command. It needs nothing but Node.
 */
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { addonReason, buildAddon } from "./setup/build-addon.mjs";
import { buildDashboard, dashboardReason } from "./setup/build-dashboard.mjs";
import { checkNode, findMissingTools, installTools, missingToolsMessage } from "./setup/check-tools.mjs";
import { compileReason, compileTypescript } from "./setup/compile-typescript.mjs";
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
  --help         this text

REROLL_LIBTORCH names the libtorch to use: a folder that holds include/ and lib/, a Python torch package, or a prefix
such as /usr. Without it the active Python's torch is used, then the system's.`;

const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");

async function main(flags) {
  const unknown = flags.find((flag) => !["--check", "--no-install", "--help"].includes(flag));
  if (unknown !== undefined) throw new SetupError(`${unknown} is not a flag of the setup.\n\n${HELP}`);
  if (flags.includes("--help")) return console.log(HELP);
  checkNode();
  const system = describeSystem({ allowInstall: !flags.includes("--no-install") });
  if (flags.includes("--check")) return printPlan(system);
  const start = performance.now();
  const target = await withLock(join(root, "build/setup.lock"), () => setUp(system), {
    onWait: sayWaiting,
  });
  console.log(`ready: libtorch ${describeTarget(target)} (${secondsSince(start)})`);
}

async function setUp(system) {
  const packages = packagesReason(root);
  if (packages) await step("packages", `npm ci, ${packages}`, (log) => installPackages(root, { log }));

  const target = targetOf(await provideLibtorchAndTools(system));
  if (lacksFastBlas(target.libtorch, system)) await provideFastBlas(system);
  if (lacksSandbox(root, system)) await provideSandbox(system);

  const addon = addonReason(root, target);
  if (addon) await step("native", `cmake, ${addon}`, (log) => buildAddon(root, target, { log }));

  const sources = compileReason(root);
  if (sources) await step("typescript", `tsc, ${sources}`, (log) => compileTypescript(root, { log }));

  const page = dashboardReason(root);
  if (page) await step("dashboard", `vite, ${page}`, (log) => buildDashboard(root, { log }));
  return target;
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
  return libtorch !== null && addonReason(root, targetOf(libtorch)) === null ? [] : findMissingTools();
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

/** What the addon is built for. Without the CUDA headers it is built for the CPU alone. */
function targetOf(libtorch) {
  return { libtorch, cudaInclude: libtorch.cuda ? findCudaHeaders(libtorch) : null };
}

function describeTarget({ libtorch, cudaInclude }) {
  const where = `${libtorch.version} at ${libtorch.root}`;
  if (!libtorch.cuda) return `${where}, CPU`;
  if (cudaInclude !== null) return `${where}, CPU and CUDA`;
  return `${where}, CPU only: it has CUDA, but the CUDA headers were not found. Set CUDA_HOME to a CUDA toolkit to use it`;
}

function printPlan(system) {
  const { libtorch, looked } = findLibtorch();
  const missing = describeMissing({ libtorch, looked, missingTools: findMissingBuildTools(libtorch) }, system);
  const packages = packagesReason(root);
  const addon = libtorch === null ? "there is no libtorch yet" : addonReason(root, targetOf(libtorch));
  const sources = compileReason(root);
  printPlanLine("packages", packages && `npm ci would run: ${packages}`);
  printPlanLine("libtorch", libtorch ? describeTarget(targetOf(libtorch)) : "not found");
  if (libtorch && lacksFastBlas(libtorch, system)) console.log(slowBlasWarning(system));
  printPlanLine("native", addon && `cmake would run: ${addon}`);
  printPlanLine("typescript", sources && `tsc would run: ${sources}`);
  const page = dashboardReason(root);
  printPlanLine("dashboard", page && `vite would run: ${page}`);
  if (missing.length === 0) return;
  console.log(system.mayInstall ? "\napt-get would install what is missing here:" : "");
  console.log(missing.join("\n\n"));
}

function printPlanLine(name, text) {
  console.log(`${name.padEnd(10)} ${text ?? "current"}`);
}

/** Runs one step with a log of its own, and prints what and why before it and the time after it. */
async function step(name, what, work) {
  const start = performance.now();
  process.stdout.write(`${name.padEnd(10)} ${what} ... `);
  try {
    await work(relative(process.cwd(), join(root, "build", `${name}.log`)));
  } catch (error) {
    console.log("failed");
    throw error;
  }
  console.log(secondsSince(start));
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
