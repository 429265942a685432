/** `reroll plan`: where the roles of a run could be on a number of GPUs, what they would need, and how long a step would take. */
import { Command, InvalidArgumentError } from "commander";
import { several } from "../flag-values.ts";

interface PlanFlags {
  readonly gpus: number;
  readonly gpuMemory: number;
  readonly promptTokens: number;
  readonly replyTokens?: number;
  readonly set?: readonly string[];
}

/** The command, for the program to add. */
export const planCommand = new Command("plan")
  .description(
    "Print the placements of a run on a number of GPUs, with memory per device and the predicted time of a step.",
  )
  .argument("<run file>", "run.ts, or YAML or JSON")
  .option("--gpus <count>", "number of GPUs, all alike", atLeastOne, 1)
  .option("--gpu-memory <GB>", "memory of each", atLeastOne, 141)
  .option("--prompt-tokens <count>", "tokens of an average prompt", atLeastOne, 256)
  .option(
    "--reply-tokens <count>",
    "tokens of all replies of an average trajectory (default: rollout.sampling.maxTokens)",
    atLeastOne,
  )
  .option("--set <key=value>", "a value in place of the file's; may be given several times", several)
  .action(async (path: string, flags: PlanFlags) => {
    const { planForGpus } = await import("../../run/plan-for-gpus.ts");
    const { gpus, gpuMemory, promptTokens, replyTokens, set = [] } = flags;
    const pool = { numGpus: gpus, memoryBytes: gpuMemory * 1e9 };
    const tokens = { promptTokens, ...(replyTokens !== undefined && { replyTokens }) };
    console.log((await planForGpus(path, set, pool, tokens)).join("\n"));
  });

function atLeastOne(text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1) return value;
  throw new InvalidArgumentError("It must be a whole number of at least 1.");
}
