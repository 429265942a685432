import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { fixtureFolder } from "../../../fixtures/tokenizer/make-tokenizer.ts";
import { never, rewardInput } from "../../../test/rewards/reward-input.ts";
import { encodeChat } from "../../chat/template/chat-template.ts";
import { loadTokenizer } from "../../chat/tokenizer/load-tokenizer.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { toHuggingFaceConfig } from "../../models/causal-lm/config.ts";
import { saveCausalLm } from "../../models/causal-lm/save-causal-lm.ts";
import { paddedLayout } from "../../models/causal-lm/token-layout.ts";
import { saveValueHead, ValueHead } from "../../models/causal-lm/value-head.ts";
import { namedWeights } from "../../models/causal-lm/weight-names.ts";
import { writeSafetensors } from "../../models/formats/safetensors/write-safetensors.ts";
import { tensorSource } from "../../models/formats/tensor-files.ts";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { noGrad } from "../../torch/autograd.ts";
import { cat, tensor } from "../../torch/create.ts";
import { memoryStats } from "../../torch/memory.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import { loadRewardModel } from "./load-reward-model.ts";
import { createModelScorer } from "./model-scorer.ts";
import { rewardModel } from "./reward-model.ts";
import { scoreConversations } from "./score-conversations.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-reward-model-"));
afterAll(() => rmSync(root, { recursive: true }));

const tokenizer = await loadTokenizer(fixtureFolder);
const config = tinyConfig("qwen3", { vocabSize: 260, maxPositions: 256, tieEmbeddings: true });
const decoder = tinyModel(config);
const head = new ValueHead(config.width, { initial: { std: 0.5, generator: new Generator(7) } });

/** A folder as transformers writes it for AutoModelForSequenceClassification: no output matrix, and a `score`. */
function writeClassifier(name: string, scoreRows = 1, extra: readonly string[] = []): string {
  const folder = join(root, name);
  mkdirSync(folder, { recursive: true });
  cpSync(fixtureFolder, folder, { recursive: true });
  writeFileSync(
    join(folder, "config.json"),
    JSON.stringify({ ...toHuggingFaceConfig(config), tie_word_embeddings: false }),
  );
  tensorScope(() => {
    const score = cat(Array.from({ length: scoreRows }, () => head.weight.detach()));
    writeSafetensors(join(folder, "model.safetensors"), [
      ...namedWeights(decoder).map((weight) => tensorSource(weight.name, weight.viewOf(weight.parameter.detach()))),
      tensorSource("score.weight", score),
      ...extra.map((each) => tensorSource(each, score)),
    ]);
  });
  return folder;
}

/** The score by hand: one row through the decoder, and the product of its last state with the weights of the head. */
function byHand(model: CausalLm, ids: Int32Array): number {
  return tensorScope(() =>
    noGrad(() => {
      const hidden_SD = model.forward(tensor(ids, [ids.length]), paddedLayout(1, ids.length));
      const last = hidden_SD.select(0, ids.length - 1).toArray() as number[];
      const weights = head.weight.toArray() as number[];
      return last.reduce((sum, value, i) => sum + value * weights[i]!, 0);
    }),
  );
}

const replies = ["Yes.", "No, and here is why it cannot be: it is too long.", "", "Perhaps?"];
const inputs = replies.map((reply) => rewardInput(reply));
const expected = inputs.map(({ messages }) => byHand(decoder, encodeChat(tokenizer, messages)));

test("the scores of different replies differ, so that a mix-up would show", () => {
  expect(new Set(expected.map((value) => value.toFixed(3))).size).toBe(replies.length);
});

test("a Hugging Face classifier scores the last token of the rendered conversation", async () => {
  const reward = await rewardModel.build(rewardModel.options.parse({ path: writeClassifier("hf") }));
  for (const [i, input] of inputs.entries()) {
    expect((await reward.score(input, never)).value).toBeCloseTo(expected[i]!, 4);
  }
  await reward.close?.();
});

test("our own layout gives the same", async () => {
  const folder = join(root, "own");
  saveCausalLm(decoder, folder, { files: tokenizer.files });
  saveValueHead(head, folder);
  const reward = await rewardModel.build(rewardModel.options.parse({ path: folder }));
  expect((await reward.score(inputs[0]!, never)).value).toBeCloseTo(expected[0]!, 4);
  await reward.close?.();
});

test("the model lives in a thread of its own: what it refuses comes from there, and with the thread it is gone", async () => {
  const reward = await rewardModel.build(rewardModel.options.parse({ path: writeClassifier("thread") }));
  const long = reward.score(rewardInput("x".repeat(300)), never);
  await expect(long).rejects.toMatchObject({ code: "CONTEXT_OVERFLOW" });
  await reward.close?.();
  await expect(reward.score(inputs[0]!, never)).rejects.toMatchObject({ code: "REWARD_CRASHED" });
});

test("a batch gives each conversation what it gets alone", async () => {
  const model = { decoder, head, tokenizer };
  const ids = inputs.map(({ messages }) => encodeChat(tokenizer, messages));
  const alone = ids.map((one) => scoreConversations(model, [one])[0]!);
  expect(scoreConversations(model, ids)).toEqual(alone);
});

test("requests that come together share one pass", async () => {
  let numPasses = 0;
  const counted = Object.create(decoder, {
    forward: {
      value: (...args: Parameters<CausalLm["forward"]>) => {
        numPasses++;
        return decoder.forward(...args);
      },
    },
  }) as CausalLm;
  const scorer = createModelScorer({ decoder: counted, head, tokenizer }, { windowMs: 5, maxBatchTokens: 10_000 });
  const scores = await Promise.all(inputs.map(({ messages }) => scorer.score(messages, [], never)));
  scores.forEach((value, i) => void expect(value).toBeCloseTo(expected[i]!, 4));
  expect(numPasses).toBe(1);
});

test("a conversation that is too long is an error of its own, not of its batch", async () => {
  const scorer = createModelScorer({ decoder, head, tokenizer }, { windowMs: 5, maxBatchTokens: 10_000 });
  const [long, short] = ["x".repeat(300), replies[0]!].map((reply) =>
    scorer.score(rewardInput(reply).messages, [], never),
  );
  await expect(long).rejects.toMatchObject({ code: "CONTEXT_OVERFLOW" });
  expect(await short).toBeCloseTo(expected[0]!, 4);
});

test("a classifier of two labels and unknown weights are refused", async () => {
  await expect(loadRewardModel(writeClassifier("two", 2))).rejects.toThrow(
    "score.weight has shape [2, 16]. A reward model has one label: [1, 16].",
  );
  await expect(loadRewardModel(writeClassifier("odd", 1, ["v_head.weight"]))).rejects.toThrow(
    'such as "v_head.weight"',
  );
});

test("a model that was closed, or could not be loaded, leaves no memory behind", async () => {
  const path = writeClassifier("freed");
  const broken = writeClassifier("odd", 1, ["v_head.weight"]);
  const before = memoryStats().liveBytes;
  const reward = await rewardModel.build(rewardModel.options.parse({ path }));
  await reward.score(inputs[0]!, never);
  expect(memoryStats().liveBytes).toBeGreaterThan(before);
  await reward.close?.();
  await expect(loadRewardModel(broken)).rejects.toThrow("v_head");
  expect(memoryStats().liveBytes).toBe(before);
});
