/** `reroll export`: the weights of a run as a folder that other tools load. */
import { Command } from "commander";
import { wholeNumber } from "../flag-values.ts";

interface ExportFlags {
  readonly out: string;
  readonly merge?: boolean;
  readonly base?: string;
  readonly step?: number;
}

/** The command, for the program to add. */
export const exportCommand = new Command("export")
  .description("Write the weights of a run in Hugging Face layout.")
  .argument("<from>", "folder of a run, of a checkpoint, or of a model; a .gguf file; or a name on the Hub")
  .requiredOption("--out <folder>", "a new or empty folder")
  .option("--merge", "add LoRA adapters to the model they belong to")
  .option("--base <folder>", "that model (default: the one that the run started from)")
  .option("--step <n>", "a checkpoint of a run (default: the best, else the latest)", wholeNumber(0))
  .addHelpText("after", "\nExample:\n  $ reroll export runs/first --out ./my-model --merge")
  .action(async (from: string, { out, merge = false, base, step }: ExportFlags) => {
    const { exportModel } = await import("../../run/export-model.ts");
    const { openHub } = await import("../open-hub.ts");
    const options = {
      from,
      out,
      merge,
      paths: openHub(),
      ...(base !== undefined && { base }),
      ...(step !== undefined && { step }),
    };
    console.log(await exportModel(options));
  });
