/**
 * The large products of a training step, by libtorch and by the fastest algorithm that cuBLASLt proposes: errors against float32, and times.
 *
 * Usage: sh run.sh tuned-products [--out file.json]. Both compute in turns of four milliseconds without a pause, since a GPU that becomes warm
 * becomes slower; times are medians of those. The sums weigh every product by how often a step has it.
 */
import { parseArgs } from "node:util";
import { inferenceMode } from "../../src/torch/autograd.ts";
import { empty, randn } from "../../src/torch/create.ts";
import { CudaEvent } from "../../src/torch/cuda.ts";
import type { DType } from "../../src/torch/dtype.ts";
import { op } from "../../src/torch/operator.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import { tuneProducts } from "../../src/torch/tuned-products.ts";
import { rowReport } from "./row-report.ts";

const { values } = parseArgs({ options: { out: { type: "string" } } });
const report = rowReport("gpu-tuned-products", values.out);
/** How often each way has its turn, and for how long. */
const rounds = 7;
const turnMs = 4;
const place = { device: "cuda", dtype: "bfloat16" } as const;
const ops = {
  linear: op("aten::linear"),
  wideMmInto: op("aten::mm.dtype_out"),
  addmmInto: op("aten::addmm.dtype_out"),
} as const;

interface Layer {
  readonly name: string;
  readonly inputs: number;
  readonly outputs: number;
  readonly tokens: number;
  /** How often a step has it. */
  readonly count: number;
  readonly kind?: "biased" | "scores";
}

const models: Readonly<Record<string, readonly Layer[]>> = {
  "0.5B, 16,384 tokens": [
    { name: "query, key, value", inputs: 896, outputs: 1152, tokens: 16_384, count: 24, kind: "biased" },
    { name: "output of attention", inputs: 896, outputs: 896, tokens: 16_384, count: 24 },
    { name: "gate and up", inputs: 896, outputs: 9728, tokens: 16_384, count: 24 },
    { name: "down", inputs: 4864, outputs: 896, tokens: 16_384, count: 24 },
    { name: "scores", inputs: 896, outputs: 151_936, tokens: 8192, count: 2, kind: "scores" },
  ],
  "135M, 65,531 tokens": [
    { name: "query, key, value", inputs: 576, outputs: 960, tokens: 65_531, count: 30 },
    { name: "output of attention", inputs: 576, outputs: 576, tokens: 65_531, count: 30 },
    { name: "gate and up", inputs: 576, outputs: 3072, tokens: 65_531, count: 30 },
    { name: "down", inputs: 1536, outputs: 576, tokens: 65_531, count: 30 },
    { name: "scores", inputs: 576, outputs: 49_152, tokens: 16_383, count: 4, kind: "scores" },
  ],
};

interface Case {
  readonly model: string;
  readonly what: string;
  readonly count: number;
  /** Computes the product. */
  readonly run: () => Tensor;
  /** The first rows of the product in float32. */
  readonly expected: Tensor;
  readonly tolerance: number;
}

const cases = Object.entries(models).flatMap(([model, layers]) => layers.flatMap((layer) => casesOf(model, layer)));
tuneProducts();
const sums = new Map<string, { usual: number; tuned: number }>();
for (const { model, what, count, run, expected, tolerance } of cases) {
  const error = errorOf(run, expected);
  // In inference mode libtorch multiplies as it does by itself.
  const [usualMs, tunedMs] = mediansMs([() => inferenceMode(run), run]);
  const sum = sums.get(model) ?? { usual: 0, tuned: 0 };
  sums.set(model, { usual: sum.usual + count * usualMs, tuned: sum.tuned + count * tunedMs });
  report({ model, what, count, usualMs, tunedMs, ratio: usualMs / tunedMs, error });
  if (!(error < tolerance)) throw new Error(`${model}: ${what} is wrong by ${error}, and ${tolerance} is allowed.`);
}
for (const [model, { usual, tuned }] of sums) {
  report({ model, what: "all of a step", usualMs: usual, tunedMs: tuned, ratio: usual / tuned });
}

function casesOf(model: string, { name, inputs, outputs, tokens, count, kind }: Layer): Case[] {
  const x = randn([tokens, inputs], place);
  const weight = randn([outputs, inputs], place);
  const grad = randn([tokens, outputs], place);
  const bias = randn([outputs], place);
  const some = 64;
  // Rounding to 16 bits. Tensor cores add up many products with fewer digits than float32 has.
  const [rounded, summed] = [2 ** -8, 2 ** -14];
  const wide = (of: Tensor) => of.to("float32");
  const make = (what: string, run: () => Tensor, expected: Tensor, times = 1, tolerance = rounded): Case => ({
    ...{ model, what: `${name}, ${what}`, count: count * times, run, expected, tolerance },
  });
  const forward = wide(x.narrow(0, 0, some)).mm(wide(weight).t());
  const result = kind === "biased" ? forward.add(wide(bias)) : forward;
  const gradInput = wide(grad.narrow(0, 0, some)).mm(wide(weight));
  const gradWeight = wide(grad.narrow(1, 0, some))
    .t()
    .mm(wide(x));
  const input = make("gradient of the input", () => grad.mm(weight), gradInput);
  if (kind !== "scores") {
    return [
      make("forward", () => (kind === "biased" ? ops.linear(x, weight, bias) : ops.linear(x, weight, null)), result),
      input,
      make("gradient of the weight", () => grad.t().mm(x), gradWeight),
    ];
  }
  // Scores themselves are float32 products, which libtorch makes by itself.
  const sums_VD = empty([outputs, inputs], { device: "cuda", dtype: "float32" });
  const added_VD = empty([outputs, inputs], { device: "cuda", dtype: "float32" });
  const float32: DType = "float32";
  const write = (out: Tensor) => ops.wideMmInto(grad.t(), x, float32, out);
  return [
    input,
    make("gradient of the weight in float32", () => write(sums_VD), gradWeight, 0, summed),
    // The first chunk of tokens writes the sums, and the others add to them.
    make(
      "gradient of the weight, written and added",
      () => {
        write(added_VD);
        return ops.addmmInto(added_VD, grad.t(), x, float32, 1, 1, added_VD);
      },
      gradWeight.mul(2),
      1 / 2,
      summed,
    ),
  ];
}

/** ‖got − expected‖ / ‖expected‖ over the rows that are expected. */
function errorOf(run: () => Tensor, expected: Tensor): number {
  return tensorScope(() => {
    const got = run().narrow(0, 0, expected.size(0)).to("float32");
    return got.sub(expected).norm().item() / expected.norm().item();
  });
}

/** Milliseconds of one run of each, by the median of the turns that they take. */
function mediansMs(ways: readonly [() => Tensor, () => Tensor]): readonly [number, number] {
  const timeOf = (run: () => Tensor, repeats: number) => {
    const [start, end] = [new CudaEvent({ hasTiming: true }), new CudaEvent({ hasTiming: true })];
    start.record();
    for (let i = 0; i < repeats; i++) tensorScope(() => void run());
    end.record();
    return () => {
      end.synchronize();
      const ms = end.elapsedSince(start) / repeats;
      for (const one of [start, end]) one.dispose();
      return ms;
    };
  };
  const repeats = Math.max(2, Math.ceil(turnMs / timeOf(ways[0], 1)()));
  // All is launched before any of it is waited for.
  const turns = Array.from({ length: rounds }, () => ways.map((run) => timeOf(run, repeats)));
  const times = turns.map((turn) => turn.map((read) => read()));
  const medianOf = (way: number) => times.map((turn) => turn[way]!).toSorted((a, b) => a - b)[(rounds - 1) / 2]!;
  return [medianOf(0), medianOf(1)];
}
