/**
 * Generation with a hybrid of linear and full attention on one GPU: the layers of Qwen3.5 at a width of 1,024, random weights. Tokens per
 * second through recorded graphs, and on the general path, which blocks of another size force; and whether both draw what a forward pass
 * over the whole sequence gives.
 *
 * Usage: npm run bundle -- bench/gpu/linear-decode.ts, then sh run.sh linear-decode [--rows 64,256] [--tokens 128] on the GPU machine; with
 * --tiny a small model on the CPU, which tests this script. Out: a line of JSON per measurement.
 */
import { parseArgs } from "node:util";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import { promptLogprobs } from "../../src/generation/local/prompt-logprobs.ts";
import { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { parseConfig } from "../../src/models/causal-lm/config.ts";
import { Generator } from "../../src/torch/random.ts";

const { values } = parseArgs({
  options: {
    rows: { type: "string", default: "64,256" },
    tokens: { type: "string", default: "128" },
    prompt: { type: "string", default: "256" },
    tiny: { type: "boolean", default: false },
  },
});
const [numTokens, promptLength] = [Number(values.tokens), Number(values.prompt)];
const config = parseConfig(
  {
    model_type: "qwen3_5_text",
    vocab_size: 32_768,
    hidden_size: values.tiny ? 64 : 1024,
    num_hidden_layers: values.tiny ? 4 : 24,
    num_attention_heads: 8,
    num_key_value_heads: 2,
    head_dim: 256,
    intermediate_size: values.tiny ? 128 : 3584,
    max_position_embeddings: 4096,
    tie_word_embeddings: true,
    linear_num_key_heads: values.tiny ? 2 : 16,
    linear_num_value_heads: values.tiny ? 2 : 16,
  },
  "the shape of this benchmark",
);
const place = values.tiny
  ? ({ device: "cpu", dtype: "float32" } as const)
  : ({ device: "cuda", dtype: "bfloat16" } as const);
const model = new CausalLm(config, place).initialize(new Generator(1));

for (const B of values.rows.split(",").map(Number)) {
  await measure("graphs", B, 16, numTokens);
  // Slower by far: a few tokens tell.
  await measure("general path", B, 8, Math.min(numTokens, 16));
}

async function measure(path: string, B: number, blockSize: number, maxTokens: number): Promise<void> {
  const contextLength = promptLength + numTokens + 16;
  const engine = new LocalEngine(model, { contextLength, maxRunning: B, maxStepTokens: 32_768, blockSize });
  const promptOf = (row: number) => Array.from({ length: promptLength }, (_, i) => (i * 31 + row * 977) % 32_768);
  const run = async (count: number) => {
    let [numStarted, begin, counted] = [0, 0, 0];
    const startMs = performance.now();
    const replies = await Promise.all(
      Array.from({ length: B }, (_, row) => {
        const onTokens = () => {
          if (begin !== 0) counted++;
          else if (++numStarted === B) begin = performance.now();
        };
        return engine.generate({ promptIds: promptOf(row), sampling: { maxTokens: count, seed: row }, onTokens });
      }),
    );
    return { replies, tokensPerSecond: (counted * 1000) / (performance.now() - begin), prefillMs: begin - startMs };
  };
  await run(8);
  const { replies, tokensPerSecond, prefillMs } = await run(maxTokens);
  await engine.close();
  const gaps = replies.slice(0, 4).flatMap(({ tokenIds, modelLogprobs }, row) => {
    const whole = promptLogprobs(model, Int32Array.from([...promptOf(row), ...tokenIds])).slice(promptLength);
    return Array.from(whole, (logprob, i) => Math.abs(logprob - modelLogprobs[i]!));
  });
  const meanGap = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
  const numbers = { tokensPerSecond: Math.round(tokensPerSecond), prefillMs: Math.round(prefillMs), meanGap };
  console.log(JSON.stringify({ path, rows: B, blockSize, ...numbers, maxGap: Math.max(...gaps) }));
}
