/** `reroll eval`: how good weights are on the validation of a run file. */
import { Command } from "commander";
import { several, wholeNumber } from "../flag-values.ts";
import { stopSignal } from "../stop-signal.ts";

interface EvalFlags {
  readonly runFile: string;
  readonly set?: readonly string[];
  readonly step?: number;
  readonly json?: boolean;
}

/** The command, for the program to add. */
export const evalCommand = new Command("eval")
  .description("Validate weights as a run file says, and train nothing.")
  .argument("<model>", "folder of a run, of a checkpoint, or of a model in Hugging Face layout")
  .requiredOption("--run-file <file>", "names environments, rewards, data and the validation")
  .option("--set <key=value>", "a value in place of the file's; may be given several times", several)
  .option("--step <n>", "a checkpoint of a run (default: the best, else the latest)", wholeNumber(0))
  .option("--json", "print the metrics as one line of JSON")
  .addHelpText("after", "\nExample:\n  $ reroll eval runs/first --run-file run.ts --set validation.prompts=512")
  .action(runEval);

async function runEval(path: string, { runFile, set = [], step, json }: EvalFlags): Promise<void> {
  // Imported only now, since this loads libtorch, which `--help` and a wrong flag need not wait for.
  const [{ prepareRun }, { findModel }, { evaluateModel }] = await Promise.all([
    import("../../run/prepare-run.ts"),
    import("../../run/find-model.ts"),
    import("../../run/evaluate-model.ts"),
  ]);
  const model = findModel(path, step);
  const { isControlRun, resolveAnyControl } = await import("../../control/run/prepare-control.ts");
  const file = await (await import("../../run/load-run-file.ts")).loadRunFile(runFile);
  if (isControlRun(file)) {
    const { evaluateControlRun } = await import("../../control/run/evaluate-control.ts");
    print(await evaluateControlRun(model.folder, resolveAnyControl(file, set, process.env).config), json);
    return;
  }
  const { isTuningRun, prepareTuning } = await import("../../tuning/prepare-tuning.ts");
  if (isTuningRun(file)) {
    const { evaluateTuning } = await import("../../tuning/evaluate-tuning.ts");
    print(await evaluateTuning(model, await prepareTuning(file, set)), json);
    return;
  }
  const { config } = await prepareRun(file, set);
  const { signal, release } = stopSignal(() => console.error("Stopping."));
  try {
    const metrics = await evaluateModel(model, config, signal);
    print(metrics, json);
  } finally {
    release();
  }
}

function print(metrics: Readonly<Record<string, number>>, json: boolean | undefined): void {
  console.log(json === true ? JSON.stringify(metrics) : tableOf(metrics));
}

function tableOf(metrics: Readonly<Record<string, number>>): string {
  const width = Math.max(...Object.keys(metrics).map((name) => name.length));
  return Object.entries(metrics)
    .map(([name, value]) => `${name.padEnd(width)}  ${Number(value.toPrecision(6))}`)
    .join("\n");
}
