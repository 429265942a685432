/** Trials that find out what a server does not say about itself. */
import type { Generate, Generation, Sampling } from "../generate.ts";
import type { Capability } from "./capabilities.ts";
import type { Dialect } from "./dialect.ts";
import type { LogprobMeaning } from "./logprob-meaning.ts";

/** Low ids exist in every vocabulary. Several prompts, because a model that is certain tells nothing. */
const PROBE_PROMPTS = [
  [5, 6, 7, 8],
  [8, 7, 9, 11, 10],
  [12, 5, 12, 5, 9, 9],
  [6, 14, 13, 7, 15, 10, 8],
];
const COLD = 0.1;

/**
 * Under which distribution log-probs are reported. The likeliest token is drawn once greedily, which every server reports
 * under the model, and once at a low temperature: if its log-prob moves, temperature is in it.
 */
export async function findMeaning(
  [model, other]: Dialect["meanings"],
  generateAs: (meaning: LogprobMeaning) => Generate,
): Promise<LogprobMeaning> {
  if (other === undefined) return model;
  for (const promptIds of PROBE_PROMPTS) {
    const greedy = await draw(generateAs(model), promptIds, { maxTokens: 1, temperature: 0 });
    const cold = await draw(generateAs(other), promptIds, { maxTokens: 1, temperature: COLD, seed: 1 });
    const modelLogprob = greedy.modelLogprobs[0] ?? 0;
    const isTelling = modelLogprob < -0.05 && greedy.tokenIds[0] === cold.tokenIds[0];
    if (!isTelling) continue;
    const hasMoved = Math.abs((cold.samplerLogprobs[0] ?? 0) - modelLogprob) > 0.3 * Math.abs(modelLogprob);
    return hasMoved ? other : model;
  }
  // Nothing could be seen: the meaning that promises least.
  return model;
}

/** Whether the same seed gives the same tokens. */
export async function repeatsSeeds(generate: Generate): Promise<Capability> {
  const [promptIds] = PROBE_PROMPTS;
  const sampling = { maxTokens: 8, seed: 1234 };
  const first = await draw(generate, promptIds ?? [], sampling);
  const second = await draw(generate, promptIds ?? [], sampling);
  const isSame =
    first.tokenIds.length === second.tokenIds.length &&
    first.tokenIds.every((tokenId, index) => tokenId === second.tokenIds[index]);
  if (isSame) return { has: "yes" };
  return {
    has: "no",
    note: "the same seed gave other tokens. SGLang needs --enable-deterministic-inference; others differ by what else they run.",
  };
}

async function draw(generate: Generate, promptIds: readonly number[], sampling: Sampling): Promise<Generation> {
  const generation = await generate({ promptIds, sampling });
  if (generation.finish.kind === "failed") throw generation.finish.error;
  return generation;
}
