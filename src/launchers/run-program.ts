/** Programs of schedulers, such as `sbatch` and `kubectl`: started with words, answered with what they print. */
import { execFile } from "node:child_process";
import { RerollError } from "../errors/reroll-error.ts";

/** Rejects with SCHEDULER_FAILED, which says what the program printed, or that there is none. */
export function runProgram(program: string, words: readonly string[], input = ""): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      program,
      [...words],
      { maxBuffer: MAX_BYTES, timeout: TIMEOUT_MS },
      (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(failure(program, words, error, stderr));
      },
    );
    // A program that ends before it has read everything has said why.
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
  });
}

const MAX_BYTES = 256 * 1024 * 1024;
const TIMEOUT_MS = 60_000;

function failure(
  program: string,
  words: readonly string[],
  error: Error & { readonly code?: unknown },
  stderr: string,
): RerollError {
  if (error.code === "ENOENT")
    return new RerollError(
      "SCHEDULER_FAILED",
      `${program} is not here. Submit from a machine that has it, or print the job with --dry-run and take it there.`,
      { program },
    );
  const said = stderr.trim() === "" ? error.message : stderr.trim();
  return new RerollError("SCHEDULER_FAILED", `${[program, ...words].join(" ")} failed: ${said}`, { program });
}
