/** Every recipe of the table can be named in a run file; of those that need the same from a run, one trains. */
import { expect, test } from "vitest";
import { type RecipeName, recipes } from "../../src/algorithms/recipes/table.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { trainSmall } from "./small-run.ts";
import { wordGame, wordRollout } from "./word-game.ts";

/** Options that a recipe cannot do without. */
const required: Partial<Record<RecipeName, object>> = { "dr-grpo": { maxResponseLength: 2 } };
const names = Object.keys(recipes) as RecipeName[];

const runOf = (type: RecipeName) => ({
  device: "cpu",
  model: { preset: "nano" },
  envs: { game: wordGame },
  rollout: wordRollout,
  algorithm: { type, ...required[type] },
  training: { optimizer: { lr: 1e-2 } },
  loop: { type: "sync", steps: 1 },
});

test.each(names)("%s can be named in a run file", async (type) => {
  const { config } = await prepareRun(runOf(type), [], {});
  expect(config.algorithm.type).toBe(type);
});

/** What a recipe asks of a run: recipes that ask for the same differ in pure functions alone. */
function demandsOf(type: RecipeName): string {
  const { needs, hasCritic, needsEntropies } = recipes[type].build({ type, ...required[type] });
  return [...needs, `critic ${hasCritic}`, `entropies ${needsEntropies}`].join(" ");
}

const firstOfEach = [...new Map(names.toReversed().map((name) => [demandsOf(name), name])).values()];

test.each(firstOfEach)("%s trains for a step", async (type) => {
  const { metrics, trajectories } = await trainSmall(runOf(type));
  const trained = trajectories.filter(({ fate }) => fate === "delivered");
  expect(trained).toHaveLength(8);
  expect(trained.some(({ advantage = 0 }) => advantage !== 0)).toBe(true);
  expect(metrics[0]).toMatchObject({ "train/updates": 1, "train/skipped_updates": 0 });
  expect(metrics[0]!["train/grad_norm"]).toBeGreaterThan(0);
});
