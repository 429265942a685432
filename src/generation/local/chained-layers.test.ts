import { expect, test } from "vitest";
import { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import type { DecoderFeatures } from "../../models/causal-lm/decoder-features.ts";
import { type Family, familyNames } from "../../models/causal-lm/families/table.ts";
import { addLora } from "../../models/causal-lm/lora.ts";
import { quantizeModel } from "../../models/causal-lm/quantize-model.ts";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import type { DType } from "../../torch/dtype.ts";
import { Generator } from "../../torch/random.ts";
import { canChain } from "./chained-layers.ts";

const fitting = { width: 128, mlpWidth: 192, numHeads: 4, numKeyValueHeads: 2, headSize: 32 } as const;
const unbiased = { hasOutputBias: false, hasMlpBias: false } as const;

interface Changes {
  readonly family?: Family;
  readonly width?: number;
  readonly mlpWidth?: number;
  readonly dtype?: DType;
  readonly features?: Partial<DecoderFeatures>;
  readonly change?: (model: CausalLm) => void;
}

/** Whether a model is decoded by the chain at this many rows, on a GPU that has the kernels. */
function chains(
  { family = "qwen2", dtype = "bfloat16", features = {}, change, ...sizes }: Changes,
  numRows = 64,
): boolean {
  const config = tinyConfig(family, { ...fitting, ...sizes, features: { ...unbiased, ...features } });
  // Values are needed to change them alone.
  const model = change === undefined ? new CausalLm(config, { device: "meta", dtype }) : tinyModel(config, { dtype });
  change?.(model);
  const answer = canChain(model, numRows, true);
  model.dispose();
  return answer;
}

test("decoders with a norm before each part, attention and a SiLU-gated MLP are chained; the others go the usual way", () => {
  expect(familyNames.filter((family) => chains({ family }))).toEqual([
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "phi3",
    "smollm3",
  ]);
});

test("biases, widths and types that the kernels do not take keep a model off the chain", () => {
  expect(chains({})).toBe(true);
  expect(chains({ features: { hasOutputBias: true } })).toBe(false);
  expect(chains({ features: { hasMlpBias: true } })).toBe(false);
  expect(chains({ width: 160 })).toBe(false);
  expect(chains({ mlpWidth: 200 })).toBe(false);
  expect(chains({ dtype: "float32" })).toBe(false);
});

test("adapters and quantized weights keep a model off the chain, as does a GPU without its kernels", () => {
  expect(
    chains({
      change: (model) => addLora(model, { rank: 2, alpha: 4, targets: ["q_proj"], generator: new Generator(0) }),
    }),
  ).toBe(false);
  expect(chains({ change: (model) => quantizeModel(model, "int8", "cpu") })).toBe(false);
  const model = tinyModel(tinyConfig("qwen2", fitting), { dtype: "bfloat16" });
  expect(canChain(model, 1, false)).toBe(false);
  model.dispose();
});

test("steps of up to 64 rows are chained, and up to 256 where a layer is small", () => {
  expect([1, 64, 256, 257].map((numRows) => chains({}, numRows))).toEqual([true, true, true, false]);
  const large = { width: 1024, mlpWidth: 6400 };
  expect([64, 65].map((numRows) => chains(large, numRows))).toEqual([true, false]);
});
