/** `reroll setup`: finds libtorch and gets the native addon for it, once per machine. */
import { Command, CommanderError } from "commander";
import { runSetup } from "../offer-setup.ts";

/** The command, for the program to add. */
export const setupCommand = new Command("setup")
  .description("Get the native addon for this machine: prebuilt where one fits, else compiled.")
  .option("--check", "say what would be done, and do nothing")
  .option("--no-install", "never install system packages (by default apt is used on Debian and Ubuntu, as root)")
  .addHelpText(
    "after",
    `
It is kept outside of node_modules (in REROLL_CACHE, or the cache folder of this system) for each version of reroll and each libtorch, so
that projects share it. REROLL_LIBTORCH names the libtorch to use: a folder that holds include/ and lib/, a Python torch package, or a
prefix such as /usr. Without it the active Python's torch is used, then the system's.`,
  )
  .action(async ({ check, install }: { readonly check?: boolean; readonly install: boolean }) => {
    const exitCode = await runSetup([...(check === true ? ["--check"] : []), ...(install ? [] : ["--no-install"])]);
    if (exitCode !== 0) throw new CommanderError(exitCode, "reroll.setup", "");
  });
