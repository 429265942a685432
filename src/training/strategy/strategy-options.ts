/** The keys of `training` that say how its work is spread: `ranks` and `strategy`. */
import { z } from "zod";

const strategySchema = z.strictObject({
  zero: z
    .union([z.literal(0), z.literal(1), z.literal(2), z.literal(3)])
    .default(0)
    .describe(
      "What the ranks that have the same weights keep only a part of each: 1 optimizer state, 2 gradients too, 3 weights too. With 3, activations of a layer are computed again in the backward pass.",
    ),
  tensor: z
    .int()
    .positive()
    .default(1)
    .describe("Ranks that split every layer between them: heads, MLPs, experts and the vocabulary. Divides ranks."),
  context: z
    .int()
    .positive()
    .default(1)
    .describe("Ranks that split the tokens of every forward pass, and exchange heads in attention. Divides ranks."),
  expert: z
    .int()
    .positive()
    .default(1)
    .describe(
      "Ranks that have some of the experts each, of a mixture of experts, and send tokens to where their experts are. They have rows of their own. Divides ranks; not with tensor.",
    ),
  pipeline: z
    .int()
    .positive()
    .default(1)
    .describe(
      "Ranks that have consecutive layers each, and hand hidden states on and gradients back, one pass forward and one backward in turn. Divides ranks; keeps them busy where an update has several times as many microbatches.",
    ),
  offload: z
    .enum(["none", "optimizer", "parameters"])
    .default("none")
    .describe(
      "What is kept in host memory: the optimizer's state and its copy of the weights, which are updated there; with parameters, the weights too, which takes zero 3.",
    ),
  in: z
    .enum(["auto", "threads", "processes", "machines"])
    .default("auto")
    .describe(
      "Where ranks run. The first is always a thread of this process, so that an engine here reads its weights without a copy. machines: each of the others on a worker that has joined, as under a launcher. auto: processes on GPUs, threads on the CPU.",
    ),
});

/** How the work of a trainer is spread over its ranks. */
export type StrategyOptions = z.output<typeof strategySchema>;

export const strategyOptions = {
  ranks: z.int().positive().default(1).describe("Trainers that share each batch, on a GPU each where there are GPUs."),
  strategy: strategySchema.prefault({}),
};

/** What is wrong with a strategy, as a sentence; null where nothing is. */
export function checkStrategy(
  ranks: number,
  { zero, tensor, context, expert, pipeline, offload }: StrategyOptions,
): string | null {
  const uneven = [
    { tensor, context, pipeline },
    { context, expert, pipeline },
  ].find((counts) => ranks % productOf(counts) !== 0);
  if (expert > 1 && tensor > 1)
    return `training.strategy has expert ${expert} and tensor ${tensor}: experts are dealt out whole, or each is split. Set one of them to 1.`;
  if (uneven !== undefined) {
    const used = Object.entries(uneven).filter(([, count]) => count > 1);
    const [names, counts] = [used.map(([name]) => name), used.map(([, count]) => count)];
    return `training.ranks must be a multiple of training.strategy.${names.join(" * ")}: got ${ranks} and ${counts.join(" * ")}. Set ranks to ${productOf(uneven)} or a multiple of it.`;
  }
  if (pipeline > 1 && zero > 1)
    return `training.strategy has pipeline ${pipeline} and zero ${zero}: a stage has several passes under way, and gradients or weights would be exchanged in each of them. Set zero to 0 or 1, or pipeline to 1.`;
  if (offload === "parameters" && zero !== 3)
    return `training.strategy.offload is "parameters", and zero is ${zero}: weights can be elsewhere only where they are gathered when a layer runs. Set zero to 3, or offload to "optimizer".`;
  return null;
}

function productOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((product, count) => product * count, 1);
}

/** What is wrong with a strategy that splits models or passes, beside something that knows whole ones; null where it does neither. */
export function onlyDataParallel(
  { zero, tensor, context, expert, pipeline }: StrategyOptions,
  beside: string,
): string | null {
  const words = Object.entries({ tensor, context, expert, pipeline }).filter(([, count]) => count > 1);
  const used = zero > 1 ? `zero ${zero}` : (words[0]?.join(" ") ?? null);
  if (used === null) return null;
  return `training.strategy has ${used}, which ${beside} does not work with. Allowed are zero 0 or 1 and offload.`;
}
