/** `reroll eval`: how good weights are on the validation of a run file, or on a benchmark. */
import { writeFileSync } from "node:fs";
import { Command, CommanderError, Option } from "commander";
import { RerollError } from "../../errors/reroll-error.ts";
import type { Metrics } from "../../flow/metrics.ts";
import type { EvalSettings } from "../../run/evaluate-model.ts";
import { type BenchmarkName, benchmarkNames } from "../../run/evaluation/benchmark-names.ts";
import type { EvalReport } from "../../run/evaluation/eval-report.ts";
import type { FoundModel } from "../../run/find-model.ts";
import type { HubPaths } from "../../run/hub-paths.ts";
import type { RawRun } from "../../run/load-run-file.ts";
import { numberIn, several, wholeNumber } from "../flag-values.ts";
import { stopSignal } from "../stop-signal.ts";

interface EvalFlags extends EvalSettings {
  readonly runFile?: string;
  readonly benchmark?: BenchmarkName;
  readonly data?: string;
  readonly set?: readonly string[];
  readonly step?: number;
  readonly json?: boolean;
  readonly out?: string;
}

/** The command, for the program to add. */
export const evalCommand = new Command("eval")
  .description("Validate weights as a run file says or on a benchmark, and train nothing.")
  .argument(
    "<model>",
    "folder of a run, of a checkpoint, or of a model in Hugging Face layout; a .gguf file; or a name on the Hub",
  )
  .option("--run-file <file>", "names environments, rewards, data and the validation")
  .addOption(new Option("--benchmark <name>", "in place of a run file, with --data").choices(benchmarkNames))
  .option("--data <path>", "file or folder with the rows of the benchmark")
  .option("--samples <n>", "samples per prompt (default: 1)", wholeNumber(1, 4096))
  .option("--temperature <t>", "default: the validation's for one sample, training's for several", numberIn(0, 100))
  .option("--prompts <n>", "prompts to take (default: as the run file says; all of a benchmark)", wholeNumber(1))
  .option("--success <reward>", "reward from which a sample counts as a success (default: 1)", numberIn(-1e18, 1e18))
  .option("--set <key=value>", "a value in place of the file's; may be given several times", several)
  .option("--step <n>", "a checkpoint of a run (default: the best, else the latest)", wholeNumber(0))
  .option("--base <folder>", "the model that LoRA adapters belong to (default: the one recorded with them)")
  .option("--json", "print scores and metrics as one line of JSON")
  .option("--out <file>", "write a report with a row per prompt, as JSON")
  .addHelpText(
    "after",
    `
Examples:
  $ reroll eval runs/first --run-file run.ts --prompts 512
  $ reroll eval ./Qwen3-0.6B --benchmark gsm8k --data gsm8k/test.jsonl
  $ reroll eval runs/first --benchmark math-500 --data math500.jsonl --samples 16 --out report.json`,
  )
  .action(runEval);

async function runEval(path: string, flags: EvalFlags): Promise<void> {
  const { set = [], json, benchmark } = flags;
  expectSource(flags);
  // Imported only now, since this loads libtorch, which `--help` and a wrong flag need not wait for.
  const { expectLanguageModel, openModel } = await import("../../run/find-model.ts");
  const { hubProgress, openHub } = await import("../open-hub.ts");
  const paths = openHub();
  const model = await openModel(path, paths, flags.step);
  if (benchmark !== undefined) {
    expectLanguageModel(model);
    const file = await ofBenchmark(benchmark, model, flags, paths);
    return evaluate(path, model, file, flags, paths);
  }
  const { isControlRun, resolveAnyControl } = await import("../../control/run/prepare-control.ts");
  const file = await (await import("../../run/load-run-file.ts")).loadRunFile(flags.runFile!);
  if (isControlRun(file)) {
    refuseSampling(flags, "a control run, which has no replies to sample");
    const { evaluateControlRun } = await import("../../control/run/evaluate-control.ts");
    print(await evaluateControlRun(model.folder, resolveAnyControl(file, set, process.env).config), json);
    return;
  }
  const { isTuningRun, prepareTuning } = await import("../../tuning/prepare-tuning.ts");
  if (isTuningRun(file)) {
    refuseSampling(flags, "a run on given replies, which samples none");
    const { evaluateTuning } = await import("../../tuning/evaluate-tuning.ts");
    const run = await prepareTuning(file, set, process.env, { onProgress: hubProgress() });
    print(await evaluateTuning(model, run, paths), json);
    return;
  }
  await evaluate(path, model, file, flags, paths);
}

async function evaluate(
  path: string,
  model: FoundModel,
  file: RawRun,
  flags: EvalFlags,
  paths: HubPaths,
): Promise<void> {
  const { set = [], runFile, benchmark, json, out } = flags;
  const [{ prepareEvaluation }, { evaluateModel }, { flatReport }] = await Promise.all([
    import("../../run/prepare-run.ts"),
    import("../../run/evaluate-model.ts"),
    import("../../run/evaluation/eval-report.ts"),
  ]);
  const { hubProgress } = await import("../open-hub.ts");
  const { config } = await prepareEvaluation(file, set, process.env, { onProgress: hubProgress() });
  const { signal, exitCode, release } = stopSignal(() => console.error("Stopping."));
  try {
    const { samples, temperature, success, prompts, base } = flags;
    const settings = { samples, temperature, success, prompts, base, ...(runFile !== undefined && { runFile }) };
    const report = await evaluateModel(model, config, { ...settings, signal, paths, report: console.error });
    if (exitCode() === 0) {
      if (out !== undefined) writeReport(out, { model: path, benchmark, runFile }, report);
      if (json === true) print(flatReport(report), true);
      else console.log(`${scoresOf(report)}\n\n${tableOf(report.metrics)}`);
    }
  } catch (cause) {
    if (exitCode() === 0) throw cause;
  } finally {
    release();
  }
  if (exitCode() !== 0) throw new CommanderError(exitCode(), "reroll.stopped", "");
}

function expectSource({ runFile, benchmark, data }: EvalFlags): void {
  const problem =
    (runFile === undefined) === (benchmark === undefined)
      ? `Give either --run-file or --benchmark: got ${runFile === undefined ? "neither" : "both"}. Benchmarks are ${benchmarkNames.join(", ")}.`
      : benchmark !== undefined && data === undefined
        ? `--benchmark ${benchmark} needs its rows: give a file or folder with --data.`
        : benchmark === undefined && data !== undefined
          ? "--data is for --benchmark. The run file names the data: set validation.data there."
          : null;
  if (problem !== null) throw new RerollError("CONTRADICTORY_OPTIONS", problem);
}

async function ofBenchmark(
  name: BenchmarkName,
  model: FoundModel,
  { data, base }: EvalFlags,
  paths: HubPaths,
): Promise<RawRun> {
  const [{ benchmarkRun }, { openBase }] = await Promise.all([
    import("../../run/evaluation/benchmarks.ts"),
    import("../../run/export-model.ts"),
  ]);
  return benchmarkRun(name, data!, model.isAdapter ? await openBase(model, paths, base) : model.folder);
}

function refuseSampling(flags: EvalFlags, what: string): void {
  const names = ["samples", "temperature", "success", "prompts", "base", "out"] as const;
  const given = names.find((name) => flags[name] !== undefined);
  if (given === undefined) return;
  throw new RerollError("INVALID_OPTION", `--${given} does not go with ${what}. Leave it out.`);
}

interface Origin {
  readonly model: string;
  readonly benchmark: BenchmarkName | undefined;
  readonly runFile: string | undefined;
}

function writeReport(file: string, origin: Origin, report: EvalReport): void {
  try {
    writeFileSync(file, `${JSON.stringify({ ...origin, ...report }, null, 1)}\n`);
  } catch (cause) {
    throw new RerollError("FILE_INVALID", `--out ${file} cannot be written: ${String(cause)}.`, {}, { cause });
  }
}

function print(metrics: Metrics, json: boolean | undefined): void {
  console.log(json === true ? JSON.stringify(metrics) : tableOf(metrics));
}

/** As in `pass@1  0.42  0.38 to 0.46`. */
function scoresOf({ scores, prompts, samples, temperature }: EvalReport): string {
  const rounded = (value: number) => String(Number(value.toPrecision(4)));
  const width = Math.max(...Object.keys(scores).map((name) => name.length));
  const lines = Object.entries(scores).map(
    ([name, { value, low, high }]) =>
      `${name.padEnd(width)}  ${rounded(value).padEnd(8)}  ${rounded(low)} to ${rounded(high)}`,
  );
  const said = `${prompts.length} prompts, ${samples} ${samples === 1 ? "sample" : "samples"} each at temperature ${temperature}; intervals of 95 %`;
  return [said, ...lines].join("\n");
}

function tableOf(metrics: Metrics): string {
  const width = Math.max(...Object.keys(metrics).map((name) => name.length));
  return Object.entries(metrics)
    .map(([name, value]) => `${name.padEnd(width)}  ${Number(value.toPrecision(6))}`)
    .join("\n");
}
