/**
 * Checks our numbers against those of other implementations and prints the largest error per kind.
 *
 * Usage: npm run parity -- hf <folder> [--device cuda] [--dtype bfloat16] [--bar 1e-4]
 *        npm run parity -- verl <folder>
 */
import { parseArgs } from "node:util";
import type { DType } from "../src/torch/dtype.ts";
import { checkModel, goldenModels } from "./parity/hugging-face.ts";
import { checkVerl, VERL_BAR } from "./parity/verl.ts";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    device: { type: "string", default: "cpu" },
    dtype: { type: "string", default: "float32" },
    bar: { type: "string", default: "1e-4" },
  },
});
const [kind, folder] = positionals;
if (folder === undefined || (kind !== "hf" && kind !== "verl")) {
  console.error("Usage: npm run parity -- hf <folder> [--device cuda] [--dtype bfloat16] [--bar 1e-4]");
  console.error("       npm run parity -- verl <folder>");
  process.exit(2);
}
process.exit((kind === "hf" ? compareWithHuggingFace(folder) : compareWithVerl(folder)) ? 0 : 1);

function compareWithHuggingFace(models: string): boolean {
  const bar = Number(values.bar);
  const names = goldenModels(models);
  if (names.length === 0) {
    console.error(`${models} holds no model folder with a golden.json.`);
    process.exit(2);
  }
  let hasFailed = false;
  for (const name of names) {
    const { errors, greedyMismatches } = checkModel(models, name, {
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
  console.log(hasFailed ? `FAILED: an error passes ${bar}` : `${names.length} models within ${bar}`);
  return !hasFailed;
}

function compareWithVerl(vectors: string): boolean {
  const errors = Object.entries(checkVerl(vectors));
  for (const [name, error] of errors) {
    console.log(`${error <= VERL_BAR ? "ok  " : "FAIL"} ${name.padEnd(48)} ${error.toExponential(2)}`);
  }
  const numFailed = errors.filter(([, error]) => !(error <= VERL_BAR)).length;
  console.log(
    numFailed === 0
      ? `${errors.length} kinds within ${VERL_BAR}`
      : `FAILED: ${numFailed} of ${errors.length} kinds exceed ${VERL_BAR}`,
  );
  return numFailed === 0;
}
