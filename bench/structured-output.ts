/**
 * Structured output: whether replies to random schemas are valid, and what a constraint costs per token.
 *
 * Validity: 1,000 random schemas, one reply each at temperature 1 from a random model, judged by the validator of the JSON reward. Replies
 * that the limit of tokens cuts off are counted apart. Cost: 64 requests at once, with and without a constraint, on the CPU, in turn; the
 * median of the rounds. Arguments: schemas and rounds.
 */
import { byteTokenizerFiles } from "../src/chat/tokenizer/byte-tokenizer.ts";
import { createTokenizer } from "../src/chat/tokenizer/tokenizer.ts";
import type { JsonValue } from "../src/flow/prompt.ts";
import type { Constraint } from "../src/generation/generate.ts";
import { LocalEngine } from "../src/generation/local/local-engine.ts";
import { compileSchema } from "../src/rewards/json-schema/validate.ts";
import { tinyConfig, tinyModel } from "../src/testing/tiny-model.ts";
import { randomSchemas } from "../test/server/random-schema.ts";
import { printTable, verdict, writeResult } from "./report.ts";

const BAR = 1.15;
const BATCH = 64;
const NUM_TOKENS = 160;
const numSchemas = Number(process.argv[2] ?? 1000);
const numRounds = Number(process.argv[3] ?? 7);
const tokenizer = createTokenizer(byteTokenizerFiles(), "bytes");
const { stopIds } = tokenizer;
const promptIds = tokenizer.encode("What is the weather like?");

const validity = await checkValidity();
const cost = await measureCost();
printTable(
  "replies to random schemas",
  ["schemas", "valid", "invalid", "cut off", "tokens"],
  [[String(numSchemas), ...[validity.valid, validity.invalid, validity.cut, validity.tokens].map(String)]],
);
printTable(
  `microseconds per token, ${BATCH} requests at once`,
  ["", "free", "constrained", "ratio"],
  [["random model, width 256", cost.freeUs.toFixed(1), cost.constrainedUs.toFixed(1), cost.ratio.toFixed(3)]],
);
console.log(`cost of a constraint: ${verdict(cost.ratio, BAR)}`);
writeResult("structured-output", { validity, cost, bar: BAR });
process.exitCode = validity.invalid === 0 ? 0 : 1;

async function checkValidity() {
  const model = tinyModel(tinyConfig("qwen3", { vocabSize: 264, maxPositions: 4096 }));
  const engine = new LocalEngine(model, { tokenizer, contextLength: 4096, numBlocks: 8192, maxRunning: 128 });
  const counts = { schemas: numSchemas, valid: 0, invalid: 0, cut: 0, tokens: 0 };
  await Promise.all(
    randomSchemas(numSchemas, 11).map(async (schema, seed) => {
      const constraint: Constraint = { kind: "json-schema", schema };
      const sampling = { maxTokens: 3000, temperature: 1, stopIds, seed, constraint };
      const { tokenIds, finish } = await engine.generate({ promptIds, sampling });
      counts.tokens += tokenIds.length;
      if (finish.kind !== "stop") {
        counts.cut++;
        return;
      }
      const text = tokenizer.decode(tokenIds.subarray(0, -1));
      const problem = compileSchema(schema)(JSON.parse(text) as JsonValue);
      if (problem === undefined) counts.valid++;
      else {
        counts.invalid++;
        console.log(JSON.stringify({ problem, schema, text }));
      }
    }),
  );
  await engine.close();
  model.dispose();
  return counts;
}

async function measureCost() {
  const sizes = {
    vocabSize: 264,
    width: 256,
    numLayers: 4,
    numHeads: 4,
    numKeyValueHeads: 2,
    headSize: 64,
    mlpWidth: 1024,
  };
  const model = tinyModel(tinyConfig("llama", { ...sizes, maxPositions: 1024 }));
  const engine = new LocalEngine(model, { tokenizer, contextLength: 512, maxRunning: BATCH });
  const row = {
    type: "object",
    properties: { city: { type: "string" }, degrees: { type: "number" } },
    required: ["city", "degrees"],
  };
  const constraint: Constraint = { kind: "json-schema", schema: { type: "array", items: row, minItems: 500 } };
  const round = async (more: { readonly constraint?: Constraint }) => {
    const start = performance.now();
    const generations = await Promise.all(
      Array.from({ length: BATCH }, (_, seed) =>
        engine.generate({
          promptIds,
          sampling: { maxTokens: NUM_TOKENS, seed, ...(more.constraint && { stopIds }), ...more },
        }),
      ),
    );
    const numTokens = generations.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
    return (1000 * (performance.now() - start)) / numTokens;
  };
  const free: number[] = [];
  const constrained: number[] = [];
  await round({});
  await round({ constraint });
  for (let i = 0; i < numRounds; i++) {
    free.push(await round({}));
    constrained.push(await round({ constraint }));
  }
  await engine.close();
  model.dispose();
  const [freeUs, constrainedUs] = [median(free), median(constrained)];
  return {
    batch: BATCH,
    tokensPerRequest: NUM_TOKENS,
    rounds: numRounds,
    freeUs,
    constrainedUs,
    ratio: constrainedUs / freeUs,
  };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}
