/** `reroll train`: a run file in, trained weights in a run folder out. */
import { dirname } from "node:path";
import { Command } from "commander";
import type { RawRun } from "../../run/load-run-file.ts";
import type { RunTrainingOptions } from "../../run/run-training.ts";
import { commandName } from "../command-name.ts";
import { several } from "../flag-values.ts";
import { readVersion } from "../read-version.ts";
import { stopSignal } from "../stop-signal.ts";

interface TrainFlags {
  readonly set?: readonly string[];
  readonly explain?: boolean;
  readonly plan?: boolean;
  readonly resume?: string;
  readonly name?: string;
  readonly dashboard?: boolean;
}

/** The command, for the program to add. */
export const trainCommand = new Command("train")
  .description("Train a model as a run file says.")
  .argument("<run file>", "run.ts, or YAML or JSON")
  .option("--set <key=value>", "a value in place of the file's; may be given several times", several)
  .option("--name <name>", "what the run and its folder are called")
  .option("--resume <folder>", "go on with the run in this folder, from its latest checkpoint")
  .option("--dashboard", "show the run on a web page while it goes on")
  .option("--explain", "print every key with its value and where it comes from, and train nothing")
  .option("--plan", "check everything, print batch arithmetic and memory, and train nothing")
  .addHelpText(
    "after",
    `
Examples:
  $ reroll train run.ts
  $ reroll train run.ts --set algorithm.clipHigh=0.28 --set loop.steps=500 --name clip-28
  $ reroll train run.ts --resume runs/clip-28

The first Ctrl-C ends the run after the step under way and writes a checkpoint, the second ends it at once.`,
  )
  .action(runTrain);

async function runTrain(path: string, flags: TrainFlags): Promise<void> {
  const sets = [...(flags.set ?? []), ...(flags.name === undefined ? [] : [`name=${JSON.stringify(flags.name)}`])];
  // Only now: what is imported here loads libtorch, which `--help` and a wrong flag need not wait for.
  const { loadRunFile } = await import("../../run/load-run-file.ts");
  const { isControlRun } = await import("../../control/run/prepare-control.ts");
  const file = await loadRunFile(path);
  if (isControlRun(file)) return trainControl(path, file, sets, flags);
  if (flags.explain === true) {
    const [{ explainRun }, { resolveRun }, { parseOverride }] = await Promise.all([
      import("../../run/explain-run.ts"),
      import("../../run/resolve-run.ts"),
      import("../../run/apply-overrides.ts"),
    ]);
    console.log(explainRun(resolveRun(file, sets.map(parseOverride), process.env)));
    return;
  }
  const { prepareRun } = await import("../../run/prepare-run.ts");
  const run = await prepareRun(file, sets);
  if (flags.plan === true) {
    console.log(run.plan.lines.join("\n"));
    return;
  }
  const { runTraining } = await import("../../run/run-training.ts");
  await runWith(path, flags, run.config.tracking.folder, (options) => runTraining(run, options));
}

async function trainControl(path: string, file: RawRun, sets: readonly string[], flags: TrainFlags): Promise<void> {
  const { planControl, resolveAnyControl } = await import("../../control/run/prepare-control.ts");
  const run = resolveAnyControl(file, sets, process.env);
  if (flags.explain === true) {
    const { explainRun } = await import("../../run/explain-run.ts");
    console.log(explainRun(run));
    return;
  }
  if (flags.plan === true) {
    console.log(planControl(run.config).join("\n"));
    return;
  }
  const { runControl } = await import("../../control/run/run-control.ts");
  await runWith(path, flags, run.config.tracking.folder, (options) => runControl(run.config, sets, options));
}

/** Runs with a dashboard beside it where one is asked for, until it ends or is stopped. */
async function runWith(
  path: string,
  flags: TrainFlags,
  runsFolder: string,
  run: (options: RunTrainingOptions) => Promise<unknown>,
): Promise<void> {
  const root = flags.resume === undefined ? runsFolder : dirname(flags.resume);
  const dashboard = flags.dashboard === true ? await openBeside(root) : null;
  const { signal, release } = stopSignal(() =>
    console.error("Stopping after this step. Press Ctrl-C again to stop at once."),
  );
  try {
    await run({
      signal,
      ...(flags.resume !== undefined && { resume: flags.resume }),
      version: readVersion(),
      environment: process.env,
      runFile: path,
      command: commandName,
    });
  } finally {
    release();
    await dashboard?.close();
  }
}

async function openBeside(root: string) {
  const { openDashboardBesideRun } = await import("../open-dashboard.ts");
  const dashboard = await openDashboardBesideRun(root);
  console.log(`dashboard: ${dashboard.url}`);
  return dashboard;
}
