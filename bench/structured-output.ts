/**
 * Structured output: whether replies to random schemas are valid, and what a constraint costs per token.
 *
 * Validity: 1,000 random schemas, one reply each at temperature 1 from a random model, judged by the validator of the JSON reward. Replies
 * that the limit of tokens cuts off are counted apart. Cost: 64 requests at once, with and without a constraint, in turn, in wall-clock and
 * in CPU time; the medians of the rounds, and of the ratios of neighbors. Arguments: schemas, rounds, and the folder of a tokenizer to
 * measure the cost with instead of bytes, and `cuda` to measure it there with the shape of Qwen2.5-0.5B.
 */
import { basename } from "node:path";
import { byteTokenizerFiles } from "../src/chat/tokenizer/byte-tokenizer.ts";
import { loadTokenizer } from "../src/chat/tokenizer/load-tokenizer.ts";
import { createTokenizer, type Tokenizer } from "../src/chat/tokenizer/tokenizer.ts";
import type { JsonValue } from "../src/flow/prompt.ts";
import type { Constraint } from "../src/generation/generate.ts";
import { LocalEngine } from "../src/generation/local/local-engine.ts";
import { compileSchema } from "../src/rewards/json-schema/validate.ts";
import { tinyConfig, tinyModel } from "../src/testing/tiny-model.ts";
import { randomSchemas } from "../test/server/random-schema.ts";
import { createQwenShape, qwenShape } from "./gpu/qwen-shape.ts";
import { printTable, verdict, writeResult } from "./report.ts";

const BAR = 1.15;
const BATCH = 64;
const PROMPT = "What is the weather like?";
const numSchemas = Number(process.argv[2] ?? 1000);
const numRounds = Number(process.argv[3] ?? 7);
const tokenizer = createTokenizer(byteTokenizerFiles(), "bytes");
const { stopIds } = tokenizer;
const promptIds = tokenizer.encode(PROMPT);
/** Arrays that no reply comes to the end of. */
const row = {
  type: "object",
  properties: { city: { type: "string" }, degrees: { type: "number" } },
  required: ["city", "degrees"],
};
const constraints: Readonly<Record<string, Constraint>> = {
  "rows of an array": { kind: "json-schema", schema: { type: "array", items: row, minItems: 500 } },
  "strings of 40 to 60": {
    kind: "json-schema",
    schema: { type: "array", items: { type: "string", minLength: 40, maxLength: 60 }, minItems: 500 },
  },
  // No token of it is inside of a string: what masks cost at most.
  "numbers of an array": { kind: "json-schema", schema: { type: "array", items: { type: "number" }, minItems: 500 } },
};

const folder = process.argv[4];
const isOnGpu = process.argv[5] === "cuda";

const validity = await checkValidity();
const costs = await measureCosts(folder === undefined ? tokenizer : await loadTokenizer(folder));
printTable(
  "replies to random schemas",
  ["schemas", "valid", "invalid", "cut off", "tokens"],
  [[String(numSchemas), ...[validity.valid, validity.invalid, validity.cut, validity.tokens].map(String)]],
);
printTable(
  `microseconds per token, ${BATCH} requests at once, random model`,
  ["", "free", "constrained", "ratio", "ratio of CPU time"],
  costs.map(({ name, freeUs, constrainedUs, ratio, cpuRatio }) => [
    name,
    ...[freeUs, constrainedUs].map((us) => us.toFixed(1)),
    ...[ratio, cpuRatio].map((value) => value.toFixed(3)),
  ]),
);
const worst = Math.max(...costs.map(({ ratio }) => ratio));
console.log(`cost of a constraint: ${verdict(worst, BAR)}`);
writeResult("structured-output", {
  validity,
  vocabulary: folder === undefined ? "bytes" : basename(folder),
  costs,
  bar: BAR,
});
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

async function measureCosts(words: Tokenizer) {
  // Padded as models are: rows of scores stay aligned.
  const vocabSize = isOnGpu ? qwenShape.vocab_size : Math.ceil(words.vocabularySize / 64) * 64;
  const sizes = { vocabSize, width: 256, numLayers: 4, numHeads: 4, numKeyValueHeads: 2, headSize: 64, mlpWidth: 1024 };
  const model = isOnGpu
    ? createQwenShape({ device: "cuda", dtype: "bfloat16" })
    : tinyModel(tinyConfig("llama", { ...sizes, maxPositions: 1024 }));
  const engine = new LocalEngine(model, { tokenizer: words, contextLength: 512, maxRunning: BATCH });
  const numTokens = vocabSize > 10_000 && !isOnGpu ? 16 : 160;
  const costs = [];
  for (const [name, constraint] of Object.entries(constraints)) {
    const round = async (more: { readonly constraint?: Constraint }) => {
      const [start, cpuStart] = [performance.now(), process.cpuUsage()];
      const generations = await Promise.all(
        Array.from({ length: BATCH }, (_, seed) => {
          const stops = more.constraint && { stopIds: words.stopIds };
          return engine.generate({
            promptIds: words.encode(PROMPT),
            sampling: { maxTokens: numTokens, seed, ...stops, ...more },
          });
        }),
      );
      const drawn = generations.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
      const { user, system } = process.cpuUsage(cpuStart);
      return { us: (1000 * (performance.now() - start)) / drawn, cpuUs: (user + system) / drawn };
    };
    await round({});
    await round({ constraint });
    const rounds = [];
    for (let i = 0; i < numRounds; i++)
      rounds.push({ free: await round({}), constrained: await round({ constraint }) });
    costs.push({
      ...{ name, batch: BATCH, tokensPerRequest: numTokens, rounds: numRounds },
      freeUs: median(rounds.map(({ free }) => free.us)),
      constrainedUs: median(rounds.map(({ constrained }) => constrained.us)),
      ratio: median(rounds.map(({ free, constrained }) => constrained.us / free.us)),
      cpuRatio: median(rounds.map(({ free, constrained }) => constrained.cpuUs / free.cpuUs)),
    });
  }
  await engine.close();
  model.dispose();
  return costs;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}
