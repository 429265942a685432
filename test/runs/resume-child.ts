/** A process that trains test/runs/resume-run.ts in a folder, or goes on with what is there. It is made to be killed. */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { runTraining } from "../../src/run/run-training.ts";

const root = process.argv[2]!;
const runFile = fileURLToPath(new URL("resume-run.ts", import.meta.url));
const folder = join(root, "resume");
const checkpoints = join(folder, "checkpoints");
const canResume = existsSync(checkpoints) && readdirSync(checkpoints).some((name) => /^step-\d+$/.test(name));
// Killed before its first checkpoint there is nothing to go on from, and a new run gives the same numbers.
if (!canResume) rmSync(folder, { recursive: true, force: true });
await runTraining(await prepareRun(runFile, [`tracking.folder=${JSON.stringify(root)}`], {}), {
  signal: new AbortController().signal,
  ...(canResume && { resume: folder }),
  version: "test",
  environment: {},
  runFile,
  console: null,
  command: "reroll",
});
