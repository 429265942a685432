/**
 * The edge of the command line.
 *
 * In: the words after `reroll`. Out: an exit code: 0; 1 after one line that says what is wrong; 2 where what the caller wrote can
 * never work; 128 and the number of the signal for a run that was stopped by one, after it was saved. Errors end here: a RerollError shows its message alone, a failure of our own its stack too; `--debug` shows the
 * stack of every error.
 */

import { Command, CommanderError } from "commander";
import { redactText } from "../errors/redact-text.ts";
import { isRefusal } from "../errors/refusals.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { completionCommand } from "./commands/completion.ts";
import { dashboardCommand } from "./commands/dashboard.ts";
import { doctorCommand } from "./commands/doctor.ts";
import { evalCommand } from "./commands/eval.ts";
import { exportCommand } from "./commands/export.ts";
import { generateCommand } from "./commands/generate.ts";
import { initCommand } from "./commands/init.ts";
import { planCommand } from "./commands/plan.ts";
import { pushCommand } from "./commands/push.ts";
import { recordCommand } from "./commands/record.ts";
import { runsCommand } from "./commands/runs.ts";
import { serveCommand } from "./commands/serve.ts";
import { serveEnvironmentsCommand } from "./commands/serve-environments.ts";
import { setupCommand } from "./commands/setup.ts";
import { logsCommand, statusCommand, stopCommand, submitCommand } from "./commands/submit.ts";
import { trainCommand } from "./commands/train.ts";
import { workerCommand } from "./commands/worker.ts";
import { offerSetup } from "./offer-setup.ts";
import { readVersion } from "./read-version.ts";

/** Every command, in the order in which the help shows them. */
const COMMANDS: readonly Command[] = [
  initCommand,
  setupCommand,
  planCommand,
  trainCommand,
  workerCommand,
  submitCommand,
  statusCommand,
  logsCommand,
  stopCommand,
  evalCommand,
  generateCommand,
  serveCommand,
  serveEnvironmentsCommand,
  recordCommand,
  runsCommand,
  dashboardCommand,
  exportCommand,
  pushCommand,
  doctorCommand,
  completionCommand,
];

/** Commands that compute with tensors, and so need the addon. */
const COMPUTING: readonly Command[] = [
  planCommand,
  trainCommand,
  workerCommand,
  evalCommand,
  generateCommand,
  serveCommand,
  serveEnvironmentsCommand,
  exportCommand,
  pushCommand,
];

/** Computing commands whose first word is a run file. */
const READING: readonly Command[] = [planCommand, trainCommand, serveEnvironmentsCommand];

/** What was asked for can never work. */
const MISUSED = 2;

/** Runs one command and resolves with its exit code. */
export async function runCli(words: readonly string[]): Promise<number> {
  const program = createProgram();
  try {
    await program.parseAsync(words, { from: "user" });
    return 0;
  } catch (error) {
    // Help, version, checks that failed and runs that were stopped end this way too; what they had to say is printed.
    if (error instanceof CommanderError) return isMisuse(error) ? MISUSED : error.exitCode;
    console.error(redactText(describeError(error, program.opts().debug === true)));
    return isRefusal(error) ? MISUSED : 1;
  }
}

function createProgram(): Command {
  const program = new Command("reroll")
    .description("Reinforcement learning for language models and agents.")
    .version(readVersion())
    .option("--debug", "show the stack of every error")
    .configureHelp({ showGlobalOptions: true })
    .exitOverride()
    .showHelpAfterError("Add --help to see what is allowed.")
    .hook("preAction", async (_, command) => {
      if (COMPUTING.includes(command) && command.opts().explain !== true) await offerSetup(runFileOf(command));
    });
  for (const command of COMMANDS) program.addCommand(command.copyInheritedSettings(program));
  return program;
}

/** Whether the program refused the words themselves. Commands end with codes of their own by the same class. */
function isMisuse({ code, exitCode }: CommanderError): boolean {
  return code.startsWith("commander.") && exitCode === 1;
}

/** The run file that a command is to read, where it takes one. */
function runFileOf(command: Command): string | undefined {
  return READING.includes(command) ? command.args[0] : command.opts().runFile;
}

/** What a person reads about an error. One of ours says all there is to say; of a bug the stack helps to find it. */
function describeError(error: unknown, isDebugging: boolean): string {
  if (!(error instanceof Error)) return `error: ${String(error)}`;
  if (error instanceof RerollError && error.code !== "INTERNAL" && !isDebugging) return `error: ${error.message}`;
  const cause = error.cause === undefined ? "" : `\ncaused by: ${describeError(error.cause, true)}`;
  return `${error.stack ?? error.message}${cause}`;
}
