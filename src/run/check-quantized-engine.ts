/** What an engine in 8-bit floats goes with. Its tokens are drawn by another policy than the one that is trained, which must be corrected for. */
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import type { RunConfig } from "./run-config.ts";

/**
 * The first contradiction, or null.
 * @param correction how to set a correction, as in "algorithm.correction to ..."
 */
export function checkQuantizedEngine(config: RunConfig, recipe: Recipe, correction: string): string | null {
  const { engine, model, exact, placement } = config;
  const asked = (["quantization", "cacheQuantization"] as const).filter((key) => engine[key] !== null);
  const [key] = asked;
  if (key === undefined) return null;
  const problems: readonly (readonly [isSo: boolean, why: string])[] = [
    [
      engine.remote !== null,
      "engine.remote is set: a server decides itself what it computes in. Leave one of them out",
    ],
    [
      placement.engine.tensor * placement.engine.expert > 1,
      "placement.engine splits engines over devices: those in 8-bit floats are not split. Leave one of them out",
    ],
    [exact, "exact is true: the engine's log-probs cannot equal the trainer's then. Leave one of them out"],
    [
      key === "quantization" && model.quantization !== null,
      `model.quantization is ${JSON.stringify(model.quantization)}, which the engine's linear layers are in already. Leave one of them out`,
    ],
    [
      !recipe.correctsSampler,
      `nothing corrects for it: tokens are drawn with other probabilities than the trainer has for them. Set ${correction}, or leave ${asked.map((one) => `engine.${one}`).join(" and ")} out`,
    ],
  ];
  const found = problems.find(([isSo]) => isSo);
  return found === undefined ? null : `engine.${key} is "fp8", and ${found[1]}.`;
}
