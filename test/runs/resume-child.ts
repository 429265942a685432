/** A process that trains a run file of test/runs in a folder, or goes on with what is there. It is made to be killed. */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { loadRunFile } from "../../src/run/load-run-file.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { type RunTrainingOptions, runTraining } from "../../src/run/run-training.ts";
import { isTuningRun, prepareTuning } from "../../src/tuning/prepare-tuning.ts";
import { runTuning } from "../../src/tuning/run-tuning.ts";

const [root, runFile] = process.argv.slice(2) as [string, string];
const folder = join(root, "resume");
const checkpoints = join(folder, "checkpoints");
const canResume = existsSync(checkpoints) && readdirSync(checkpoints).some((name) => /^step-\d+$/.test(name));
// Killed before its first checkpoint there is nothing to go on from, and a new run gives the same numbers.
if (!canResume) rmSync(folder, { recursive: true, force: true });
const options: RunTrainingOptions = {
  signal: new AbortController().signal,
  ...(canResume && { resume: folder }),
  version: "test",
  environment: {},
  runFile,
  console: null,
  command: "reroll",
};
const file = await loadRunFile(runFile);
const sets = [`tracking.folder=${JSON.stringify(root)}`];
if (isTuningRun(file)) await runTuning(await prepareTuning(file, sets, {}), options);
else await runTraining(await prepareRun(file, sets, {}), options);
