/**
 * The CUDA path of every strategy, against one rank on the same GPU: two or four ranks share the GPU and speak through host memory (Gloo).
 *
 * Prints how far weights and metrics are apart after three optimizer steps on the same batches, in float32. It says nothing of speed: ranks that
 * share a GPU wait for each other. `--eps` is AdamW's: with 1e-3 updates are as exact as gradients are; with the usual 1e-8 a gradient of 1e-9
 * that is off by half moves its weight by half a learning rate, so that weights differ by about that wherever gradients are next to nothing.
 *
 * npm run bundle -- bench/gpu/strategies.ts && sh pack/run.sh strategies [--ranks 2] [--only dense] [--part 1/3] [--eps 1e-8]
 */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { saveCausalLm } from "../../src/models/causal-lm/save-causal-lm.ts";
import { tinyConfig } from "../../src/testing/tiny-model.ts";
import { Generator } from "../../src/torch/random.ts";
import { distance, type Outcome, type ParityCase, sourceOf, train } from "../../test/training/strategy-parity.ts";

const { values } = parseArgs({
  options: {
    ranks: { type: "string", default: "2" },
    device: { type: "string", default: "cuda:0" },
    only: { type: "string", default: "" },
    part: { type: "string", default: "1/1" },
    eps: { type: "string", default: "1e-3" },
    out: { type: "string" },
  },
});
const ranks = Number(values.ranks);
const { device } = values;
// Most of a case is the start of its processes: parts of them run beside each other.
const [part, numParts] = values.part.split("/").map(Number) as [number, number];
const sizes = {
  width: 256,
  mlpWidth: 512,
  numLayers: 4,
  numHeads: 8,
  numKeyValueHeads: 4,
  headSize: 32,
  vocabSize: 1000,
};
const experts = {
  numExperts: 8,
  numActive: 2,
  width: 128,
  normalizeWeights: true,
  hasBias: false,
  clampedGate: null,
  sharedWidth: null,
};
const folder = mkdtempSync(join(tmpdir(), "gpu-strategies-"));

const models = [
  { name: "dense", config: { ...tinyConfig("qwen3"), ...sizes } },
  {
    name: "experts",
    config: { ...tinyConfig("qwen3_moe"), ...sizes, features: { ...tinyConfig("qwen3_moe").features, experts } },
  },
];

const strategies: readonly Record<string, unknown>[] = [
  { pipeline: ranks },
  { tensor: ranks },
  { context: ranks },
  ...(ranks % 4 === 0
    ? [
        { zero: 1, tensor: 2 },
        { zero: 1, tensor: 2, context: 2 },
        { zero: 1, pipeline: 2, tensor: 2 },
      ]
    : []),
  { zero: 3, offload: "parameters" },
  { zero: 3 },
  { zero: 2 },
  { zero: 1 },
  { zero: 1, offload: "optimizer" },
  {},
];

const rows: object[] = [];
for (const { name, config } of models.filter((one) => one.name.includes(values.only))) {
  const modelFolder = join(folder, name);
  const model = new CausalLm(config).initialize(new Generator(1));
  saveCausalLm(model, modelFolder);
  model.dispose();
  // The whole dense model with a critic; adapters on the mixture, whose experts are dealt out too.
  const isLora = name === "experts";
  const sourceFor = (one: Pick<ParityCase, "ranks" | "strategy">) => {
    const hasCritic = !isLora;
    const source = sourceOf(
      { model: "qwen3", isLora, hasCritic, ...one },
      { device, devices: new Array<string>(one.ranks).fill(device) },
    );
    const reference = source.reference === "base" ? "base" : modelFolder;
    const optimizer = { ...source.training.optimizer, eps: Number(values.eps) };
    const training = { ...source.training, optimizer };
    return { ...source, training, modelFolder, reference, critic: source.critic && { ...source.critic, modelFolder } };
  };
  const alone: Outcome = await train(sourceFor({ ranks: 1, strategy: {} }));
  const all =
    name === "experts" ? [{ zero: 1, expert: ranks }, { expert: 2, context: ranks / 2 }, ...strategies] : strategies;
  for (const strategy of all.filter((_, i) => i % numParts === part - 1)) {
    const start = performance.now();
    const label = `${name} ${isLora ? "lora" : "full, critic"} ranks ${ranks} ${JSON.stringify(strategy)}`;
    const apart = distance(alone, await train(sourceFor({ ranks, strategy })));
    rows.push({ label, ...apart });
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    console.log(
      `${label.padEnd(72)} weights ${apart.weights.toExponential(1)}  metrics ${apart.metrics.toExponential(1)} (${apart.worst})  ${seconds} s`,
    );
  }
}
if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify(rows, null, 2)}\n`);
process.exit(0);
