/**
 * What an algorithm adds to a training step: score, and loss with its gradient, of 1,024 x 2,048 tokens in float32, beside
 * a step of the 25M decoder on the CPU.
 *
 * node --import tsx bench/algorithms.ts [rounds] [recipe ...]
 * The step is measured on 2,048 tokens (8 x 256) and taken times 1,024: long rows cost more per token than that, so the
 * shares are upper bounds. Bar: 3 % for every recipe.
 */
import { toLastToken } from "../src/algorithms/advantages/token-values.ts";
import type { Recipe } from "../src/algorithms/recipe-runner/recipe.ts";
import { type RecipeName, recipes } from "../src/algorithms/recipes/table.ts";
import { type ScoredBatch, selectRows, type TokenBatch } from "../src/flow/token-batch.ts";
import { arange, rand, randn } from "../src/torch/create.ts";
import { Generator } from "../src/torch/random.ts";
import { keep, tensorScope } from "../src/torch/scope.ts";
import type { Tensor } from "../src/torch/tensor.ts";
import { DecoderTraining } from "./decoder-training.ts";
import { printTable, verdict, writeResult } from "./report.ts";
import { spread } from "./statistics.ts";
import { measure, type Timing, type Turn, takeTurns } from "./take-turns.ts";

const bar = 0.03;
const shape = { rows: 1024, tokensPerRow: 2048, groupSize: 16, rowsPerMicrobatch: 64 } as const;
const decoder = { preset: "small", vocabSize: 2048, rows: 8, tokensPerRow: 256 } as const;
const scale = (shape.rows * shape.tokensPerRow) / (decoder.rows * decoder.tokensPerRow);

/** Beside the plain recipes, the most expensive setting: every mask and term, and a correction with all its metrics. */
const everyTerm = {
  correction: {
    importance: { level: "sequence", threshold: 3, isSelfNormalized: true },
    rejections: { token_k1: "0.5_2.0", seq_max_k2: 2.5 },
  },
  klReward: { coefficient: 0.01 },
  klLoss: { coefficient: 0.01 },
  entropy: { type: "fixed", coefficient: 0.001 },
  outliers: { of: "ratio", low: 1e-4, high: 100 },
  offPolicySequences: { threshold: 1 },
  masksTruncated: true,
  whitensAdvantages: true,
};

interface Subject {
  readonly name: string;
  readonly recipe: Recipe;
}

const [rounds = "3", ...chosen] = process.argv.slice(2);
const subjects = [
  ...Object.entries(recipes).map(([name, { build }]): Subject => ({ name, recipe: build(choiceOf(name)) })),
  { name: "grpo, every term", recipe: recipes.grpo.build({ type: "grpo", ...everyTerm }) },
  {
    name: "grpo, bypass",
    recipe: recipes.grpo.build({ type: "grpo", correction: { rejections: { token_k1: 2 } }, bypass: {} }),
  },
].filter(({ name }) => chosen.length === 0 || chosen.includes(name));

const batch = makeBatch();
const training = new DecoderTraining(decoder);
const timings = await takeTurns(turns(), Number(rounds));
report();

function choiceOf(name: string): { type: RecipeName; maxResponseLength?: number } {
  const type = name as RecipeName;
  return type === "dr-grpo" ? { type, maxResponseLength: shape.tokensPerRow } : { type };
}

function turns(): Record<string, Turn> {
  const step: Turn = async () => [measure(() => void training.step())];
  const parts = subjects.map(({ name, recipe }): [string, Turn][] => [
    [`${name}: score`, async () => [measure(() => tensorScope(() => void recipe.score(batch)))]],
    [`${name}: loss`, async () => tensorScope(() => [measureLoss(recipe, recipe.score(batch))])],
  ]);
  return Object.fromEntries([["step", step], ...parts.flat()]);
}

/** Loss and gradient of all microbatches, with respect to what a model would give. */
function measureLoss(recipe: Recipe, scored: ScoredBatch) {
  return measure(() => {
    for (let start = 0; start < shape.rows; start += shape.rowsPerMicrobatch) {
      tensorScope(() => {
        const indices = Array.from({ length: shape.rowsPerMicrobatch }, (_, i) => start + i);
        const rows = selectRows(scored, indices);
        const outputs = {
          policyLogprobs_BT: leaf(rows.anchorLogprobs_BT!),
          entropies_BT: leaf(rows.anchorLogprobs_BT!.neg()),
          values_BT: leaf(rows.advantages_BT),
        };
        recipe.loss({ rows, ...outputs }, scored.denominators).loss.backward();
      });
    }
  });
}

function leaf(values_BT: Tensor): Tensor {
  const copy_BT = values_BT.add(0.01);
  copy_BT.requiresGrad = true;
  return copy_BT;
}

function makeBatch(): Required<Omit<TokenBatch, "teaching">> {
  const { rows: B, tokensPerRow: T } = shape;
  const generator = new Generator(0);
  return keep(
    tensorScope(() => {
      const normal = (size: number) => randn([B, T], { generator }).mul(size);
      const uniform_B = () => rand([B], { generator });
      const lengths_B1 = uniform_B().mul(T).unsqueeze(1);
      const lossMask_BT = arange(0, T).unsqueeze(0).le(lengths_B1);
      const sampler_BT = normal(0.5).abs().neg();
      const anchor_BT = sampler_BT.add(normal(0.02));
      const rows = Array.from({ length: B }, (_, row) => row);
      return {
        samplerLogprobs_BT: sampler_BT,
        anchorLogprobs_BT: anchor_BT,
        referenceLogprobs_BT: anchor_BT.add(normal(0.1)),
        values_BT: normal(0.2),
        bootstrapValues_B: uniform_B(),
        rewards_BT: toLastToken(uniform_B().gt(0.5).to("float32"), lossMask_BT),
        greedyOf: rows.map((row) => ({ rewards: [row % 2], numTokens: T, isTruncated: false })),
        rowWeights_B: uniform_B(),
        lossMask_BT,
        groupOf: rows.map((row) => Math.floor(row / shape.groupSize)),
        isTruncated: rows.map((row) => row % 20 === 0),
        versions: { versions_BT: lossMask_BT.to("int64"), current: 1 },
        domainOf: rows.map(() => "math"),
        trajectoryOf: rows.map((row) => Math.floor(row / 4)),
        turnOf: rows.map((row) => row % 4),
        stateOf: rows.map((row) => `state ${row % 4}`),
      };
    }),
  );
}

function report(): void {
  const stepTiming = timings.step!;
  const results = subjects.map(({ name }) => {
    const [score, loss] = [timings[`${name}: score`]!, timings[`${name}: loss`]!];
    const shareBy = (quantity: (timing: Timing) => number) =>
      (quantity(score) + quantity(loss)) / (quantity(stepTiming) * scale);
    return {
      name,
      score,
      loss,
      share: shareBy(({ wall }) => wall.median),
      shareOfCpu: shareBy(({ cpu }) => cpu.median),
    };
  });
  printTable(
    `Score, and loss with gradient, of ${shape.rows} x ${shape.tokensPerRow} tokens, ms: median (quartiles)`,
    ["recipe", "score", "loss", "share of step", "of cpu time"],
    results.map(({ name, score, loss, share, shareOfCpu }) => [
      name,
      spread(score.wall, 0),
      spread(loss.wall, 0),
      percent(share),
      percent(shareOfCpu),
    ]),
  );
  const seconds = (stepTiming.wall.median * scale) / 1000;
  console.log(
    `\nA step of the ${(training.model.numParameters() / 1e6).toFixed(1)}M decoder takes ${spread(stepTiming.wall, 0)} ms ` +
      `for ${decoder.rows * decoder.tokensPerRow} tokens: ${seconds.toFixed(0)} s for all.`,
  );
  const worst = results.reduce((a, b) => (b.share > a.share ? b : a));
  console.log(`Largest share: ${worst.name}, ${percent(worst.share)}, ${verdict(worst.share, bar)}.`);
  writeResult("algorithms", { unit: "ms", bar, shape, decoder, scale, step: stepTiming, results });
}

function percent(share: number): string {
  return `${(share * 100).toFixed(3)} %`;
}
