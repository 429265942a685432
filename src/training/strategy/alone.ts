/** One rank: it has every row, every weight and every gradient. */
import { wholeModel } from "../../models/causal-lm/model-spread.ts";
import { boundGradNorm } from "../../torch/optim/clip-grad-norm.ts";
import { eachPass, type Strategy } from "./strategy.ts";

export const alone: Strategy = {
  rank: 0,
  numRanks: 1,
  spread: wholeModel,
  gather: async (own) => [own.clone()],
  exchange: async (own) => [own],
  agree: async (own) => own,
  numPasses: ([count = 0]) => count,
  seesOutput: true,
  tell: () => {},
  runPasses: async (passes) => eachPass(passes, (loss) => loss.backward()),
  backward: (loss) => loss.backward(),
  reduceGradients: async () => {},
  boundGradients: boundGradNorm,
};
