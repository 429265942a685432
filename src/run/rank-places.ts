/** The machines that the ranks of a trainer run on, where the run file or a launcher says that they are not all here. */
import { resolve } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import type { Machines } from "../machines/machines.ts";
import type { RankPlaces } from "../training/ranked-trainer.ts";
import type { RunConfig } from "./run-config.ts";

/**
 * undefined where all ranks are on this machine. Throws where a machine sees other folders.
 *
 * @param folders what ranks read, beside the folder of the run
 */
export async function rankPlaces(
  { ranks, strategy }: Pick<RunConfig["training"], "ranks" | "strategy">,
  machines: Machines | undefined,
  runFolder: string,
  folders: readonly string[],
): Promise<RankPlaces | undefined> {
  if (machines === undefined && strategy.in === "machines" && ranks > 1) throw noMachines();
  if (machines === undefined) return undefined;
  const others = await machines.all();
  await machines.expectShared(
    runFolder,
    folders.map((folder) => resolve(folder)),
  );
  return { address: machines.address, others };
}

function noMachines(): RerollError {
  return new RerollError(
    "CONTRADICTORY_OPTIONS",
    'training.strategy.in is "machines", and no other machine can join. Start the run with --listen <host:port>, or under a launcher such as torchrun.',
  );
}
