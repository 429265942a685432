/** Prompts of which part is in the cache: one variable-length call beside a sequence at a time, in float32. */
import { cat, randn, tensor } from "../../src/torch/create.ts";
import { packedAttention } from "../../src/torch/fused.ts";

const device = "cuda";
const rowsOf = (lengths: readonly number[]) => {
  const starts = [0];
  for (const length of lengths) starts.push(starts.at(-1)! + length);
  const starts_int32 = tensor(Int32Array.from(starts), [starts.length], { device });
  return { lengths, starts_int32, maxLength: Math.max(...lengths) };
};

for (const window of [null, 7]) {
  const queries = rowsOf([25, 1, 300, 7]);
  const keys = rowsOf([41, 33, 300, 1000]);
  const make = (lengths: readonly number[], heads: number) =>
    randn([lengths.reduce((sum, length) => sum + length, 0), heads, 64], { device }).to("bfloat16");
  const [q, k, v] = [make(queries.lengths, 8), make(keys.lengths, 2), make(keys.lengths, 2)];
  const got = packedAttention(q, k, v, { ...queries, keys, window });
  const expected = packedAttention(q.to("float32"), k.to("float32"), v.to("float32"), { ...queries, keys, window });
  const gap = cat([got.to("float32").sub(expected).abs().flatten(0, 2)])
    .max()
    .item();
  console.log(`packed attention with cached keys, window ${window}: largest difference ${gap.toExponential(2)}`);
  if (!(gap < 0.02)) process.exitCode = 1;
}
