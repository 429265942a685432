/**
 * The product of gate and up with the activation in one kernel, beside libtorch's product and a pass over its result, on one GPU.
 *
 * Usage: sh run.sh gated-product [--out file.json]. They compute in turns of some milliseconds without a pause, since a GPU that becomes warm becomes
 * slower; times are medians of seven turns.
 */
import { parseArgs } from "node:util";
import { randn } from "../../src/torch/create.ts";
import { gatedKernel } from "../../src/torch/kernels/gated-kernel.ts";
import { swigluKernel } from "../../src/torch/kernels/swiglu-kernel.ts";
import { op } from "../../src/torch/operator.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import { tuneProducts } from "../../src/torch/tuned-products.ts";
import { launchedMs } from "./recorded-time.ts";
import { rowReport } from "./row-report.ts";

const { values } = parseArgs({ options: { out: { type: "string" } } });
const report = rowReport("gpu-gated-product", values.out);
const linear = op("aten::linear");
const place = { device: "cuda", dtype: "bfloat16" } as const;
const rounds = 7;
/** Operations of a turn. */
const turn = 4e12;

tuneProducts();
for (const [tokens, inputs, outputs] of [
  [16_384, 896, 9728],
  [65_536, 576, 3072],
  [2048, 896, 9728],
  [16_384, 1536, 17_920],
  [16_384, 2048, 16_384],
  [16_384, 3584, 37_888],
] as const)
  tensorScope(() => measure(tokens, inputs, outputs));

function measure(tokens: number, inputs: number, outputs: number): void {
  const x = randn([tokens, inputs], place);
  const weight = randn([outputs, inputs], place).mul(inputs ** -0.5);
  const ways = {
    productUs: () => linear(x, weight, null),
    productAndActivationUs: () => swigluKernel(linear(x, weight, null)),
    joinedUs: () => gatedKernel(x, weight, true),
    joinedWithoutGateAndUpUs: () => gatedKernel(x, weight, false),
  };
  const repeats = Math.max(3, Math.round(turn / (2 * tokens * inputs * outputs)));
  const times = Object.entries(ways).map(([name, run]) => ({ name, run, us: [] as number[] }));
  for (let round = 0; round < rounds; round++)
    for (const { run, us } of times) us.push(1000 * launchedMs(run, repeats));
  const medians = times.map(({ name, us }) => [name, Math.round(us.toSorted((a, b) => a - b)[(rounds - 1) / 2]!)]);
  report({ tokens, inputs, outputs, ...Object.fromEntries(medians) });
}
