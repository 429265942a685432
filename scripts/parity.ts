/**
 * Checks our numbers against those of other implementations and prints the largest error per kind.
 *
 * Usage: npm run parity -- hf <folder> [--device cuda] [--dtype bfloat16] [--bar 1e-4]
 */
import { parseArgs } from "node:util";
import type { DType } from "../src/torch/dtype.ts";
import { checkModel, goldenModels } from "./parity/hugging-face.ts";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    device: { type: "string", default: "cpu" },
    dtype: { type: "string", default: "float32" },
    bar: { type: "string", default: "1e-4" },
  },
});
const [kind, folder] = positionals;
if (kind !== "hf" || folder === undefined) {
  console.error("Usage: npm run parity -- hf <folder> [--device cuda] [--dtype bfloat16] [--bar 1e-4]");
  process.exit(2);
}

const bar = Number(values.bar);
const models = goldenModels(folder);
if (models.length === 0) {
  console.error(`${folder} holds no model folder with a golden.json.`);
  process.exit(2);
}
let hasFailed = false;
for (const name of models) {
  const { errors, greedyMismatches } = checkModel(folder, name, {
    device: values.device,
    dtype: values.dtype as DType,
  });
  const worst = Object.entries(errors).reduce((a, b) => (b[1] > a[1] ? b : a));
  const isGood = worst[1] <= bar && (greedyMismatches === 0 || values.dtype !== "float32");
  hasFailed ||= !isGood;
  console.log(
    `${isGood ? "ok  " : "FAIL"} ${name.padEnd(14)} largest error ${worst[1].toExponential(2)} (${worst[0]}), ` +
      `greedy mismatches ${greedyMismatches}`,
  );
  for (const [quantity, error] of Object.entries(errors))
    console.log(`       ${quantity.padEnd(24)} ${error.toExponential(2)}`);
}
console.log(hasFailed ? `FAILED: an error passes ${bar}` : `${models.length} models within ${bar}`);
process.exit(hasFailed ? 1 : 0);
