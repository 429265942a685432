/**
 * Rank 0 changes a model and publishes it; the others have an engine that draws tokens while weights come in.
 *
 * Reports of rank 0: the metrics of each publication, the tensors that one leaves behind, then the code with which the
 * last one fails. Of the others: each version, the largest gap of the engine's weights to what they should be, the
 * versions of a reply's first and last token, the code of the failure, and the tensors that it leaves behind.
 */

import type { Generation } from "../../../src/generation/generate.ts";
import { copyWeights } from "../../../src/generation/local/copy-weights.ts";
import { LocalEngine } from "../../../src/generation/local/local-engine.ts";
import { mergedWeights } from "../../../src/models/causal-lm/merged-weights.ts";
import { tinyConfig, tinyModel } from "../../../src/testing/tiny-model.ts";
import { noGrad } from "../../../src/torch/autograd.ts";
import { native } from "../../../src/torch/binding.ts";
import { tensorScope } from "../../../src/torch/scope.ts";
import type { Tensor } from "../../../src/torch/tensor.ts";
import { createBroadcastSync, receiveWeights } from "../../../src/weight-sync/broadcast-sync.ts";
import { failureOf, joinTestGroup, leave, rank, report } from "./rank.ts";

const group = await joinTestGroup(60_000);
// Ranks start with other weights: only those that were sent can be equal.
const model = tinyModel(tinyConfig("qwen3"), { seed: 1 + rank });

function shift(amount: number): void {
  noGrad(() => tensorScope(() => model.parameters().forEach((parameter) => void parameter.add_(amount))));
}

async function send(): Promise<void> {
  let weights = mergedWeights(model);
  const sync = createBroadcastSync({
    // In two parts, as a trainer gives a layer at a time.
    eachWeights: async (use) => {
      const all = [...weights];
      for (const part of [all.slice(0, 3), all.slice(3)]) await use(new Map(part));
    },
    receivers: [{ group }],
    clock: () => performance.now(),
  });
  report(await sync.publish(1));
  shift(0.25);
  const before = native.memoryStats().liveTensors;
  report(await sync.publish(2));
  report(native.memoryStats().liveTensors - before);
  // A weight that the engines do not know.
  weights = new Map([...weights, ["stray.weight", [...weights.values()][0]!]]);
  report((await failureOf(sync.publish(3))).code);
  await sync.close();
}

async function receive(): Promise<void> {
  const engine = new LocalEngine(model, { contextLength: 48 });
  const target = {
    updateWeights: async (version: number, weights: ReadonlyMap<string, Tensor>) =>
      engine.updateWeights(version, (own) => copyWeights(own, weights)),
  };
  const sent = tinyModel(tinyConfig("qwen3"), { seed: 1 });
  report(await receiveWeights(group, target));
  report(largestGap(0, sent));
  const { generation, isHalfWay } = halfReply(engine);
  await isHalfWay;
  report(await receiveWeights(group, target));
  report(largestGap(0.25, sent));
  engine.resume();
  const { versions } = await generation;
  report([versions[0], versions.at(-1)]);
  const before = native.memoryStats().liveTensors;
  report((await failureOf(receiveWeights(group, target))).code);
  report(native.memoryStats().liveTensors - before);
  report(engine.status().version);
  report(await receiveWeights(group, target));
  await engine.close();
}

/** A reply of eight tokens, held after the third until the engine is resumed. */
function halfReply(engine: LocalEngine): { generation: Promise<Generation>; isHalfWay: Promise<void> } {
  let numTokens = 0;
  let reachHalf = () => {};
  const isHalfWay = new Promise<void>((resolve) => {
    reachHalf = resolve;
  });
  const onTokens = () => {
    if (++numTokens === 3) void engine.pause().then(reachHalf);
  };
  const sampling = { maxTokens: 8, seed: 1 };
  return { generation: engine.generate({ promptIds: [3, 4, 5], sampling, onTokens }), isHalfWay };
}

function largestGap(shifted: number, sent: typeof model): number {
  return tensorScope(() => {
    const [own, others] = [model, sent].map((one) => [...mergedWeights(one).values()]);
    return Math.max(...own!.map((weight, i) => weight.sub(others![i]!).sub(shifted).abs().max().item()));
  });
}

await (rank === 0 ? send() : receive());
leave();
