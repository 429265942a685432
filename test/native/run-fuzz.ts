/**
 * Runs the fuzz of many operators in child processes, and tells which calls ended a child instead of returning or throwing.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compileScript } from "../compile-script.ts";
import type { FuzzCounts } from "./fuzz-operator.ts";

/** A call that ended its process, or did not end at all. */
export interface Crash {
  readonly schema: string;
  readonly call: number;
  /** SIGSEGV, SIGFPE, SIGABRT; "hang" where the call took longer than the limit; "exit 1" and such. */
  readonly end: string;
}

export interface FuzzReport {
  readonly crashes: readonly Crash[];
  readonly counts: readonly (FuzzCounts & { readonly name: string })[];
}

export interface FuzzOptions {
  readonly calls: number;
  /** A child that makes no progress for this long is taken for hung. */
  readonly hangMs: number;
  /** Called for every crash, as it happens. */
  readonly onCrash?: (crash: Crash) => void;
}

/** Calls every operator `calls` times. A crash ends the calls of its operator; the others go on in a new child. */
export async function runFuzz(schemas: readonly string[], options: FuzzOptions): Promise<FuzzReport> {
  const folder = mkdtempSync(join(tmpdir(), "reroll-fuzz-"));
  const crashes: Crash[] = [];
  const counts: FuzzReport["counts"][number][] = [];
  try {
    for (let start = 0; start < schemas.length; ) {
      const { output, end } = await runChild(folder, schemas.slice(start), options);
      counts.push(
        ...output
          .split("\n")
          .filter((line) => line.startsWith("{"))
          .map((line) => JSON.parse(line)),
      );
      if (end === null) break;
      const [line = 0, call = 0] = readFileSync(join(folder, "progress"), "utf8").trim().split(" ").map(Number);
      const crash = { schema: schemas[start + line] ?? "", call, end };
      crashes.push(crash);
      options.onCrash?.(crash);
      start += line + 1;
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  return { crashes, counts };
}

/** How the child ended: null for well. */
async function runChild(folder: string, schemas: readonly string[], { calls, hangMs }: FuzzOptions) {
  const schemasFile = join(folder, "schemas");
  const progressFile = join(folder, "progress");
  writeFileSync(schemasFile, schemas.join("\n"));
  writeFileSync(progressFile, "");
  // Memory is limited, so that a call that asks for everything gets an error and the machine stays alive. The
  // child works in a folder of its own: some operators write files.
  const script = 'ulimit -d 3000000 -c 0; exec "$@"';
  const child = await compileScript(new URL("fuzz-child.ts", import.meta.url));
  const command = [process.execPath, child, schemasFile, progressFile, `${calls}`];
  const run = spawn("bash", ["-c", script, "bash", ...command], {
    cwd: folder,
    env: { ...process.env, OMP_NUM_THREADS: "1", OPENBLAS_NUM_THREADS: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  run.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  let errors = "";
  run.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors = (errors + text).slice(-4000);
  });
  const watch = watchProgress(progressFile, hangMs, () => run.kill("SIGKILL"));
  const end = await new Promise<string | null>((resolve) => {
    run.on("close", (code, signal) => resolve(code === 0 ? null : (signal ?? `exit ${code}`)));
  });
  const isHung = watch.stop();
  if (readFileSync(progressFile, "utf8") === "") throw new Error(`the child of the fuzz did not start: ${errors}`);
  return { output, end: isHung ? "hang" : end };
}

/** Calls `onHang` when the file stays the same for `limitMs`. */
function watchProgress(file: string, limitMs: number, onHang: () => void): { stop: () => boolean } {
  let last = "";
  let isHung = false;
  const timer = setInterval(() => {
    const now = readFileSync(file, "utf8");
    if (now === last && now !== "") {
      isHung = true;
      onHang();
    }
    last = now;
  }, limitMs);
  return {
    stop: () => {
      clearInterval(timer);
      return isHung;
    },
  };
}
