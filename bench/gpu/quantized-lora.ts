/**
 * LoRA over quantized weights with the shape of Qwen2.5-7B on one GPU: peak memory and time of a step over 4,096 tokens.
 *
 * The weights are random, drawn on the GPU one matrix at a time and kept on the CPU, so that the whole model is never on the GPU. Usage: sh run.sh quantized-lora
 * [--quantization nf4|int4|int8] [--tokens 4096]. The bar is a peak below 24 GB.
 */
import { parseArgs } from "node:util";
import { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { parseConfig } from "../../src/models/causal-lm/config.ts";
import { addLora } from "../../src/models/causal-lm/lora.ts";
import { quantizeModel } from "../../src/models/causal-lm/quantize-model.ts";
import { packedLayout } from "../../src/models/causal-lm/token-layout.ts";
import { tokenLogprobs } from "../../src/models/causal-lm/token-logprobs.ts";
import { noGrad } from "../../src/torch/autograd.ts";
import { randn, tensor } from "../../src/torch/create.ts";
import { cudaMemory, cudaSynchronize } from "../../src/torch/cuda.ts";
import { AdamW } from "../../src/torch/optim/adamw.ts";
import { Generator } from "../../src/torch/random.ts";
import { tensorScope } from "../../src/torch/scope.ts";

const { values } = parseArgs({
  options: { quantization: { type: "string", default: "nf4" }, tokens: { type: "string", default: "4096" } },
});
const quantization = values.quantization === "int8" || values.quantization === "int4" ? values.quantization : "nf4";
const numTokens = Number(values.tokens);

const config = parseConfig(
  {
    model_type: "qwen2",
    vocab_size: 152064,
    hidden_size: 3584,
    intermediate_size: 18944,
    num_hidden_layers: 28,
    num_attention_heads: 28,
    num_key_value_heads: 4,
    max_position_embeddings: 32768,
    rms_norm_eps: 1e-6,
    rope_theta: 1_000_000,
    dtype: "bfloat16",
  },
  "the shape of Qwen2.5-7B",
);
const generator = new Generator(1);
const model = new CausalLm(config, { dtype: "bfloat16" });
noGrad(() => {
  for (const parameter of model.parameters()) {
    const isMatrix = parameter.shape.length > 1;
    tensorScope(() =>
      isMatrix
        ? parameter.copy_(randn(parameter.shape, { device: "cuda", dtype: "bfloat16" }).mul(0.02))
        : parameter.fill_(1),
    );
  }
});
quantizeModel(model, quantization, "cuda");
addLora(model, { rank: 16, alpha: 32, targets: "all-linear", generator, dtype: "float32" });
const optimizer = new AdamW(model.namedParameters(), { lr: 1e-4 });
const lengths = [numTokens / 4, numTokens / 4, numTokens / 2];
for (let step = 0; step < 4; step++) {
  const startMs = performance.now();
  tensorScope(() => {
    const ids_S = tensor(
      Int32Array.from({ length: numTokens }, (_, i) => (i * 7919) % 152000),
      [numTokens],
      { device: "cuda", dtype: "int64" },
    );
    const hidden_SD = model.forward(ids_S, packedLayout(lengths, "cuda"), { recompute: true });
    tokenLogprobs(hidden_SD, model.head, ids_S).logprobs_S.mean().neg().backward();
    optimizer.step();
    optimizer.zeroGrad();
  });
  cudaSynchronize();
  console.log(JSON.stringify({ step, quantization, numTokens, ms: performance.now() - startMs, memory: cudaMemory() }));
}
