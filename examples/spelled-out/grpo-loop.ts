/**
 * GRPO, spelled out: the whole loop in one file, from prompts to better weights.
 *
 * Trains     a model of 0.1M parameters, from nothing, to say which of two digits is larger
 * Hardware   two CPU cores, no GPU
 * Time       ten seconds
 * Expect     reward from 0.1 to above 0.9
 * Command    node --import tsx examples/spelled-out/grpo-loop.ts [steps]
 *
 * A real run does the same with an engine and a trainer in threads of their own: see examples/recipes.
 */
import { deriveSeed, Random } from "reroll";
import * as algorithms from "reroll/algorithms";
import { copyWeights, type Generation, LocalEngine } from "reroll/generation";
import {
  type CausalLm,
  createPreset,
  createTokenizer,
  namedWeights,
  packedLayout,
  tokenLogprobs,
  wordTokenizerFiles,
} from "reroll/models";
import { AdamW, clipGradNorm, type Tensor, tensor, tensorScope } from "reroll/torch";

const seed = 1;
const numSteps = Number(process.argv[2] ?? 60);
const numPrompts = 32;
const groupSize = 8;

// A language of twelve words: "3 ? 7" is answered by "7". The model starts with random weights.
const words = [..."0123456789", "?"];
const tokenizer = createTokenizer(wordTokenizerFiles({ words, endWords: [] }), "digits");
const policy = createPreset("nano", 16, seed);
const optimizer = new AdamW(policy.namedParameters(), { lr: 2e-3, weightDecay: 0 });

// The engine samples from weights of its own. They change only when a new version is published.
const sampler = createPreset("nano", 16, seed);
const engine = new LocalEngine(sampler, { contextLength: 16, maxRunning: numPrompts * groupSize });

interface Sample {
  readonly group: number;
  readonly promptIds: Int32Array;
  readonly reply: Generation;
  readonly reward: number;
}

let version = 0;
for (let step = 1; step <= numSteps; step++) {
  const samples = await rollOut(step);
  const loss = tensorScope(() => train(samples));
  publish(++version);
  const reward = samples.reduce((sum, sample) => sum + sample.reward, 0) / samples.length;
  console.log(`step ${step}  reward ${reward.toFixed(3)}  loss ${loss.toFixed(4)}  version ${version}`);
}
await engine.close();

/** 1. Sample a group of replies to each prompt, and grade them. Tokens come with the log-probs they were drawn with. */
async function rollOut(step: number): Promise<Sample[]> {
  const random = new Random(deriveSeed(seed, "prompts", step));
  const groups = Array.from({ length: numPrompts }, async (_, group) => {
    const [left, right] = [random.integer(10), random.integer(10)];
    const promptIds = tokenizer.encode(`${left} ? ${right}`);
    const truth = String(Math.max(left, right));
    return Promise.all(
      Array.from({ length: groupSize }, async (_, i): Promise<Sample> => {
        const sampling = { maxTokens: 1, seed: deriveSeed(seed, step, group, i) };
        const reply = await engine.generate({ promptIds, sampling });
        return { group, promptIds, reply, reward: tokenizer.decode(reply.tokenIds) === truth ? 1 : 0 };
      }),
    );
  });
  return (await Promise.all(groups)).flat();
}

/** 2. Score against the group, take the clipped policy gradient, and update. */
function train(samples: readonly Sample[]): number {
  const groupOf = samples.map(({ group }) => group);
  const rewards_B = tensor(samples.map(({ reward }) => reward));
  const lossMask_BT = tensor(samples.map(() => [1])).to("bool");
  const samplerLogprobs_BT = tensor(samples.map(({ reply }) => [...reply.samplerLogprobs]));
  const advantages_B = algorithms.groupRelative(rewards_B, groupOf);

  const policyLogprobs_BT = replyLogprobs(policy, samples);
  const { loss_BT } = algorithms.ppoClipLoss(
    {
      policyLogprobs_BT,
      // Every sample is of the weights that are trained here, so the sampler's log-probs are the anchor.
      anchorLogprobs_BT: samplerLogprobs_BT,
      advantages_BT: algorithms.toTokens(advantages_B, lossMask_BT),
      lossMask_BT,
    },
    { clipLow: 0.2, clipHigh: 0.2, dualClip: null },
  );
  const denominators = algorithms.globalDenominators(lossMask_BT, groupOf);
  const loss = algorithms.reduceLoss(loss_BT, { lossMask_BT, groupOf }, { type: "token-mean" }, denominators);

  optimizer.zeroGrad();
  loss.backward();
  clipGradNorm(policy.trainableParameters(), 1);
  optimizer.step();
  return loss.item();
}

/** What the policy says now about the tokens that were sampled. All sequences go through the model packed, end to end. */
function replyLogprobs(model: CausalLm, samples: readonly Sample[]): Tensor {
  const rows = samples.map(({ promptIds, reply }) => [...promptIds, ...reply.tokenIds]);
  const hidden_SD = model.forward(tensor(rows.flat(), { dtype: "int64" }), packedLayout(rows.map((ids) => ids.length)));
  // The token before the reply predicts it: the last one of the prompt.
  const length = rows[0]!.length;
  const before = rows.map((_, row) => row * length + length - 2);
  const hidden_BD = hidden_SD.indexSelect(0, tensor(before, { dtype: "int64" }));
  const targets_B = tensor(
    samples.map(({ reply }) => reply.tokenIds[0]!),
    { dtype: "int64" },
  );
  return tokenLogprobs(hidden_BD, model.head, targets_B).logprobs_S.unsqueeze(1);
}

/** 3. Hand the new weights to the engine: tokens drawn from now on carry this version. */
function publish(newVersion: number): void {
  tensorScope(() => {
    const weights = new Map(
      namedWeights(policy).map(({ name, parameter, viewOf }) => [name, viewOf(parameter.detach())]),
    );
    engine.updateWeights(newVersion, (model) => copyWeights(model, weights));
  });
}
