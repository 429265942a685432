/** `reroll worker`: offers this machine to a run on another one, until that run is over. */
import { Command, Option } from "commander";
import { device, wholeNumber } from "../flag-values.ts";
import { type Address, address, type LinkFlags, withLinkFlags, workFor } from "../machine-flags.ts";
import { superviseThis } from "../supervise.ts";

interface WorkerFlags extends LinkFlags {
  readonly join: Address;
  readonly token?: string;
  readonly device?: string;
  readonly restarts?: number;
  readonly supervised?: boolean;
}

/** The command, for the program to add. */
export const workerCommand = withLinkFlags(
  new Command("worker")
    .description("Train one rank of a run that another machine controls.")
    .requiredOption("--join <host:port>", "where the controller listens: the --listen of reroll train", address)
    .option("--token <text>", "what proves that this worker belongs to the run (default: REROLL_TOKEN)")
    .option("--device <device>", "cpu, cuda or cuda:<n> (default: the first GPU where there is one)", device)
    .option("--restarts <n>", "start again, and join again, whenever it fails or is killed", wholeNumber(1))
    .addOption(new Option("--supervised").hideHelp()),
)
  .addHelpText(
    "after",
    `
Examples:
  $ export REROLL_TOKEN=$(openssl rand -hex 16)       # the same on all machines
  $ reroll train run.ts --listen 10.0.0.1:29500 --workers 2
  $ reroll worker --join 10.0.0.1:29500               # on each of the two others

A worker has one rank. A machine with several GPUs starts several, each with a --device of its own.`,
  )
  .action(async (flags: WorkerFlags) => {
    if (flags.restarts !== undefined) return superviseThis(flags.restarts);
    return workFor(
      {
        ...flags.join,
        rank: null,
        localRank: 0,
        localWorldSize: 1,
        ...(flags.device !== undefined && { device: flags.device }),
      },
      flags,
      flags.token,
    );
  });
