/** `reroll push`: the weights of a run onto the Hub, with a model card made from the run. */
import { Command } from "commander";
import { wholeNumber } from "../flag-values.ts";

interface PushFlags {
  readonly to: string;
  readonly private?: boolean;
  readonly merge?: boolean;
  readonly base?: string;
  readonly step?: number;
}

/** The command, for the program to add. */
export const pushCommand = new Command("push")
  .description("Upload the weights of a run to the Hub, with a model card made from the run.")
  .argument("<from>", "folder of a run, of a checkpoint, or of a model")
  .requiredOption("--to <repository>", "owner/name; it is made where there is none. owner/name@branch for a branch")
  .option("--private", "make a new repository that only you and yours see")
  .option("--merge", "add LoRA adapters to the model they belong to")
  .option("--base <model>", "that model, a folder or a name on the Hub (default: the one that the run started from)")
  .option("--step <n>", "a checkpoint of a run (default: the best, else the latest)", wholeNumber(0))
  .addHelpText(
    "after",
    `
HF_TOKEN holds the token to write with; HF_ENDPOINT names another Hub.

Example:
  $ reroll push runs/first --to me/my-model --private`,
  )
  .action(async (from: string, { to, private: isPrivate = false, merge = false, base, step }: PushFlags) => {
    const { pushModel } = await import("../../run/push-model.ts");
    const { openHub } = await import("../open-hub.ts");
    const options = { from, to, isPrivate, merge, paths: openHub(), environment: process.env, report: console.error };
    console.log(
      await pushModel({ ...options, ...(base !== undefined && { base }), ...(step !== undefined && { step }) }),
    );
  });
