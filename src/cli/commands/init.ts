/** `reroll init`: three questions, and a project that can be trained. */
import { basename, relative, resolve } from "node:path";
import { cancel, intro, isCancel, outro, select, text } from "@clack/prompts";
import { Command, CommanderError, Option } from "commander";
import type { TaskKind } from "../../run/init/project-files.ts";
import type { Scaffold } from "../../run/init/scaffold.ts";
import { readVersion } from "../read-version.ts";
import { hasReroll, rerollDependency } from "../reroll-dependency.ts";

interface InitFlags {
  readonly task?: TaskKind;
  readonly model?: string;
}

/** The words of `--task`. Written out, since the scaffolds load more than the help needs. */
const TASKS = [
  "game",
  "environment",
  "reward",
  "agent",
  "supervised",
  "preference",
  "reward-model",
  "ppo",
  "distillation",
  "reflection",
  "control",
] as const satisfies readonly TaskKind[];

/** The command, for the program to add. */
export const initCommand = new Command("init")
  .description("Make a new project: a run file, an environment or a reward, and how to train it.")
  .argument("[folder]", "where to write it")
  .addOption(new Option("--task <kind>", "what it is about").choices(TASKS))
  .option(
    "--model <model>",
    "a preset (nano, micro, mini, small), a folder in Hugging Face layout, or a name on the Hub",
  )
  .addHelpText(
    "after",
    `
What is not given is asked for; without a terminal the answers are: game, nano, and this folder where it is a project that has
reroll, else first-run.

Examples:
  $ reroll init
  $ reroll init my-agent --task environment --model ./Qwen3-0.6B`,
  )
  .action(runInit);

async function runInit(
  givenFolder: string | undefined,
  { task: givenTask, model: givenModel }: InitFlags,
): Promise<void> {
  const [{ createProject, expectModel, modelFor, projectName }, { scaffolds }] = await Promise.all([
    import("../../run/init/create-project.ts"),
    import("../../run/init/project-files.ts"),
  ]);
  const asks = process.stdin.isTTY === true && process.stdout.isTTY === true;
  const isComplete = givenFolder !== undefined && givenTask !== undefined && givenModel !== undefined;
  if (asks && !isComplete) intro("A new project for reroll");
  const task =
    givenTask ??
    (asks ? await answered(select({ message: "What is it about?", options: optionsOf(scaffolds) })) : "game");
  const model =
    givenModel ??
    (asks
      ? await answered(
          text({
            message:
              "Which model? A preset (nano, micro, mini, small), a folder in Hugging Face layout, or a name on the Hub",
            initialValue: "nano",
          }),
        )
      : "nano");
  expectModel(model);
  const usual = hasReroll(".") ? "." : "first-run";
  const folder = givenFolder ?? (asks ? await answered(text({ message: "Where?", initialValue: usual })) : usual);
  const path = resolve(folder);
  const isInstalled = hasReroll(path);
  const dependency = rerollDependency(path, readVersion());
  const choices = { task, model: modelFor(path, model), name: projectName(basename(path)), dependency };
  const files = createProject(path, choices);
  const where = relative("", path);
  const first = [...(where === "" ? [] : [`cd ${where}`]), ...(isInstalled ? [] : ["npm install"])];
  const steps = `Wrote ${files.join(", ")}.\nNext: ${[...first, "npx reroll train run.ts"].join(" && ")}`;
  if (asks && !isComplete) outro(steps);
  else console.log(steps);
}

function optionsOf(scaffolds: Readonly<Record<TaskKind, Scaffold>>): { value: TaskKind; label: string }[] {
  return TASKS.map((value) => ({ value, label: scaffolds[value].label }));
}

async function answered<Value>(question: Promise<Value>): Promise<Exclude<Value, symbol>> {
  const answer = await question;
  if (!isCancel(answer)) return answer as Exclude<Value, symbol>;
  cancel("Nothing was written.");
  throw new CommanderError(1, "reroll.canceled", "canceled");
}
