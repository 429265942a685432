/** `reroll doctor`: whether this machine is ready, and what to do where it is not. */
import { Command, CommanderError } from "commander";
import { defaultRunsFolder } from "../../run/runs-folder.ts";

/** The command, for the program to add. */
export const doctorCommand = new Command("doctor")
  .description("Check this machine: Node, libtorch, GPU, sandbox, memory, and that the numbers are right.")
  .option("--runs <folder>", "where runs are to be written (default: runs, or $REROLL_HOME/runs)")
  .action(async ({ runs }: { readonly runs?: string }) => {
    const { checkMachine, renderChecks } = await import("../../run/doctor.ts");
    const checks = await checkMachine(runs ?? defaultRunsFolder());
    console.log(renderChecks(checks));
    const failed = checks.filter(({ status }) => status === "fail").length;
    if (failed > 0) throw new CommanderError(1, "reroll.doctor", `${failed} checks failed`);
  });
