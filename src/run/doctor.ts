/**
 * `reroll doctor`: whether this machine can do what runs ask of it, and what to do where it cannot.
 *
 * Every check gives a row, even if the thing it looks at is broken.
 */
import { accessSync, constants, existsSync, statfsSync } from "node:fs";
import { availableParallelism, freemem, totalmem } from "node:os";
import { dirname, resolve } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { checkSandbox } from "../sandbox/python-sandbox.ts";
import { setupCommand } from "../torch/find-addon.ts";

/** ok: fine. warn: runs go on without it. fail: runs do not start. */
export type CheckStatus = "ok" | "warn" | "fail";

/** One row of the table. */
export interface Check {
  readonly name: string;
  readonly status: CheckStatus;
  /** What the check found. */
  readonly found: string;
  /** What to do; "" where all is well. */
  readonly advice: string;
}

/** Runs all checks. `runFolder` is where runs would be written. */
export async function checkMachine(runFolder: string): Promise<Check[]> {
  const torch = await checkTorch();
  const isUsable = torch[0]!.status !== "fail";
  return [
    checkNode(process.versions.node),
    ...torch,
    ...(isUsable ? await checkNumbers() : []),
    await checkPythonSandbox(),
    checkMemory(freemem(), totalmem()),
    checkRunFolder(runFolder),
  ];
}

/** The rows as text, one line each and one more for advice. */
export function renderChecks(checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  const lines = checks.flatMap(({ name, status, found, advice }) => [
    `${status.padEnd(4)}  ${name.padEnd(width)}  ${found}`,
    ...(advice === "" ? [] : [`${"".padEnd(4)}  ${"".padEnd(width)}  -> ${advice}`]),
  ]);
  return lines.join("\n");
}

/** Node 20 or later is needed. */
export function checkNode(version: string): Check {
  const isNew = Number(version.split(".")[0]) >= 20;
  return row("Node", isNew ? "ok" : "fail", version, isNew ? "" : "Install Node 20 or newer.");
}

/** The first row says whether libtorch loads; the others need it. */
async function checkTorch(): Promise<Check[]> {
  try {
    const [{ native }, { findLoadedLibtorch }, { cudaDeviceCount, cudaProperties }, { numThreads }] = await Promise.all(
      [
        import("../torch/binding.ts"),
        import("../torch/loaded-libtorch.ts"),
        import("../torch/cuda.ts"),
        import("../torch/memory.ts"),
      ],
    );
    const kind = native.builtWithCuda ? "with CUDA" : "CPU only";
    const place = findLoadedLibtorch()?.path;
    return [
      row("libtorch", "ok", `${native.torchVersion}, ${kind}${place === undefined ? "" : `, ${dirname(place)}`}`),
      checkGpu(
        Array.from({ length: cudaDeviceCount() }, (_, i) => cudaProperties(i)),
        native.builtWithCuda,
      ),
      checkThreads(availableParallelism(), numThreads()),
    ];
  } catch (cause) {
    const isMissing = cause instanceof RerollError && cause.code === "ADDON_MISSING";
    const reason = cause instanceof Error ? cause.message : String(cause);
    return [row("libtorch", "fail", `the native addon ${isMissing ? "is not built" : "does not load"}`, reason)];
  }
}

/** Small models train on the CPU; others need a GPU. */
export function checkGpu(
  devices: readonly { readonly name: string; readonly totalBytes: number }[],
  isBuiltWithCuda: boolean,
): Check {
  if (devices.length > 0) {
    return row("GPU", "ok", devices.map(({ name, totalBytes }) => `${name}, ${gigabytes(totalBytes)}`).join("; "));
  }
  return row(
    "GPU",
    "warn",
    "none",
    isBuiltWithCuda
      ? "libtorch has CUDA, and no device answers: check nvidia-smi."
      : `Presets train on the CPU. For models of half a billion weights and more, set REROLL_LIBTORCH to a libtorch with CUDA and run: ${setupCommand}`,
  );
}

/** More threads than cores make every operator slower. */
export function checkThreads(cores: number, threads: number): Check {
  const found = `${plural(cores, "core")}, ${plural(threads, "thread")} per operator`;
  if (threads <= cores) return row("threads", "ok", found);
  return row(
    "threads",
    "warn",
    found,
    `Set engine.threads and training.threads to ${cores} or less, or unset OMP_NUM_THREADS.`,
  );
}

/** Above this, the sampler and the trainer are not the same policy, or the loss depends on how a batch is cut. */
const MAX_GAP = 1e-3;
const MAX_CUT_DIFFERENCE = 1e-3;

async function checkNumbers(): Promise<Check[]> {
  const { runSelfTest } = await import("./self-test.ts");
  const { isCudaAvailable } = await import("../torch/cuda.ts");
  const devices = isCudaAvailable() ? ["cpu", "cuda"] : ["cpu"];
  const rows: Check[] = [];
  for (const device of devices) {
    try {
      const { samplerGap, cutDifference } = await runSelfTest(device);
      rows.push(
        judge(`engine = trainer, ${device}`, samplerGap, MAX_GAP, "nats between their log-probs"),
        judge(`microbatches, ${device}`, cutDifference, MAX_CUT_DIFFERENCE, "relative change of loss and gradient"),
      );
    } catch (cause) {
      rows.push(row(`self-test, ${device}`, "fail", cause instanceof Error ? cause.message : String(cause), REPORT));
    }
  }
  return rows;
}

const REPORT = "Training would be wrong here. Try another libtorch, and report this with the output of reroll doctor.";

function judge(name: string, value: number, limit: number, unit: string): Check {
  const isFine = value <= limit;
  return row(name, isFine ? "ok" : "fail", `${value.toExponential(1)} ${unit}`, isFine ? "" : REPORT);
}

async function checkPythonSandbox(): Promise<Check> {
  const found = await checkSandbox();
  if (found.isAvailable) return row("sandbox", "ok", "Python programs run isolated (bubblewrap)");
  return row("sandbox", "warn", "code rewards and code tools cannot run Python", found.reason);
}

/** Runs tell what they need at their start; this is about machines on which none would fit. */
export function checkMemory(free: number, total: number): Check {
  const found = `${gigabytes(free)} free of ${gigabytes(total)}`;
  if (free >= 2e9) return row("memory", "ok", found);
  return row("memory", "warn", found, "Small presets need about 1 GB. Close other programs before you train.");
}

/** Checkpoints are written there: twice the model and its optimizer. */
export function checkRunFolder(folder: string): Check {
  const path = resolve(folder);
  let existing = path;
  while (!existsSync(existing)) existing = dirname(existing);
  try {
    accessSync(existing, constants.W_OK);
  } catch {
    return row(
      "run folder",
      "fail",
      `${path} cannot be written`,
      "Set tracking.folder or REROLL_HOME to a folder of yours.",
    );
  }
  const { bavail, bsize } = statfsSync(existing);
  const free = bavail * bsize;
  if (free >= 5e9) return row("run folder", "ok", `${path}, ${gigabytes(free)} free`);
  return row(
    "run folder",
    "warn",
    `${path}, ${gigabytes(free)} free`,
    "Checkpoints need room: lower checkpoint.keep, or use another disk.",
  );
}

function row(name: string, status: CheckStatus, found: string, advice = ""): Check {
  return { name, status, found, advice };
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}

function plural(count: number, one: string): string {
  return `${count} ${one}${count === 1 ? "" : "s"}`;
}
