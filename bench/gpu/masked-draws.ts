/**
 * Draws by masks on a GPU: the kernel against a masked softmax in float64, what it takes, and the engine with steps launched ahead against the
 * engine that reads every step.
 *
 * Rows have masks that allow few tokens, most, one, none, or no mask, at temperatures 1, 0.7 and 0. Arguments: the folder of a tokenizer with the
 * vocabulary of Qwen2.5, for the engine.
 * Usage: npm run bundle -- bench/gpu/masked-draws.ts, then sh run.sh masked-draws <folder> on the GPU machine.
 */
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import type { Constraint, GenerateRequest } from "../../src/generation/generate.ts";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import { rand, randn, tensor } from "../../src/torch/create.ts";
import { cudaProperties } from "../../src/torch/cuda.ts";
import type { DType } from "../../src/torch/dtype.ts";
import { maskedSampleKernel, sampleKernel } from "../../src/torch/kernels/sample-kernel.ts";
import type { RowMasks } from "../../src/torch/kernels/score-tiles-kernel.ts";
import { manualSeed } from "../../src/torch/random.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import { createQwenShape, qwenShape } from "./qwen-shape.ts";
import { launchedMs } from "./recorded-time.ts";

const device = "cuda";
const TOLERANCE = 1e-4;
const problems: string[] = [];
manualSeed(0);
console.log(cudaProperties());
for (const dtype of ["float32", "bfloat16", "float16"] as const) {
  tensorScope(() => checkLogprobs(dtype, 1000));
  tensorScope(() => checkLogprobs(dtype, qwenShape.vocab_size));
}
tensorScope(checkFrequencies);
tensorScope(timeDraws);
if (process.argv[2] !== undefined) await checkEngine(process.argv[2]);
console.log(problems.length === 0 ? "masked draws agree with their reference" : `MASKED DRAWS DIFFER: ${problems}`);
process.exit(problems.length === 0 ? 0 : 1);

function expect(name: string, isTrue: boolean): void {
  if (!isTrue) problems.push(name);
}

/** True where a token may be drawn, [6, V]; the last row has no mask. */
function allowed(V: number): boolean[][] {
  const rows = [
    (id: number) => id % 97 === 5,
    (id: number) => id % 97 !== 5,
    (id: number) => id === V - 3,
    () => false,
  ];
  return [...rows, (id: number) => id < V / 2, () => true].map((isAllowed) =>
    Array.from({ length: V }, (_, id) => isAllowed(id)),
  );
}

function checkLogprobs(dtype: DType, V: number): void {
  const kinds = allowed(V);
  const temperatures = [1, 0.7, 0];
  const B = kinds.length * temperatures.length;
  const W = Math.ceil(V / 32);
  const words = new Int32Array(kinds.length * W);
  kinds.forEach((row, kind) => {
    for (let id = 0; id < V; id++) if (row[id]) words[kind * W + (id >> 5)]! |= 1 << (id & 31);
  });
  // Scores that masks forbid are far above the others, as where a model wants to break the format.
  const scores = randn([B, V], { device }).mul(6);
  scores.narrow(1, 0, V >> 3).add_(40);
  const z = scores.to(dtype);
  const kindOf = (row: number) => row % kinds.length;
  const masks_B = Int32Array.from({ length: B }, (_, row) => (kindOf(row) === kinds.length - 1 ? -1 : kindOf(row)));
  const byRow = Float32Array.from({ length: B }, (_, row) => temperatures[Math.floor(row / kinds.length)]!);
  const temperatures_B = tensor(byRow, [B], { device });
  const uniforms_B = rand([B], { device });
  const masks = { masks_KW: tensor(words, [kinds.length, W], { device }), masks_B: tensor(masks_B, [B], { device }) };
  const drawn = maskedSampleKernel(z, temperatures_B, uniforms_B, masks).toArray();
  const plain_3B = sampleKernel(z, temperatures_B, uniforms_B);
  const plain = plain_3B.toArray();
  checkKept(dtype, z, { temperatures_B, uniforms_B, plain_3B, drawn }, masks);
  let worst = 0;
  const logprobs = (row: number, temperature: number, isMasked: boolean) => {
    const row_V = z.select(0, row).to("float64").div(temperature);
    const out_V = tensor(
      Float32Array.from(kinds[kindOf(row)]!, (isIn) => (isIn ? 0 : 1)),
      [V],
      { device },
    ).gt(0);
    return (isMasked ? row_V.maskedFill(out_V, Number.NEGATIVE_INFINITY) : row_V).logSoftmax(-1);
  };
  for (let row = 0; row < B; row++) {
    const [token, sampler, model, draw] = [0, 1, 2, 3].map((part) => drawn[part * B + row]!) as number[];
    const kind = kindOf(row);
    if (kind === 3) {
      expect(`${dtype} ${V}: a row that allows nothing gives no token`, token === -1);
      continue;
    }
    expect(`${dtype} ${V}: row ${row} draws what it may`, kinds[kind]![token!] === true);
    if (kind === kinds.length - 1) {
      const same = [0, 1, 2].every((part) => drawn[part * B + row] === plain[part * B + row]);
      expect(`${dtype} ${V}: a row without a mask draws as without masks`, same && draw === sampler);
    }
    const temperature = byRow[row]!;
    const isGreedy = temperature === 0;
    const at = (values_V: Tensor) => values_V.select(0, token!).item();
    const expected = isGreedy
      ? [0, at(logprobs(row, 1, false)), 0]
      : [at(logprobs(row, temperature, false)), at(logprobs(row, 1, false)), at(logprobs(row, temperature, true))];
    if (isGreedy) {
      const best = logprobs(row, 1, true);
      expect(`${dtype} ${V}: row ${row} takes the best`, at(best) === best.max().item());
    }
    [sampler!, model!, draw!].forEach((value, part) => {
      worst = Math.max(worst, Math.abs(value - expected[part]!) / Math.max(1, Math.abs(expected[part]!)));
    });
  }
  expect(`${dtype} ${V}: log-probs are off by ${worst}`, worst < TOLERANCE);
  console.log(`${dtype.padEnd(9)} ${String(V).padEnd(7)} largest error of a log-prob ${worst.toExponential(1)}`);
}

interface KeptRows {
  readonly temperatures_B: Tensor;
  readonly uniforms_B: Tensor;
  readonly plain_3B: Tensor;
  /** What the masked kernel draws where nothing was drawn before. */
  readonly drawn: readonly number[];
}

/** After a draw of the same scores, rows with a mask are drawn as without it, and the others keep what they have. */
function checkKept(dtype: DType, z: Tensor, rows: KeptRows, masks: RowMasks): void {
  const { temperatures_B, uniforms_B, plain_3B, drawn } = rows;
  const B = z.size(0);
  const marked_3B = plain_3B.sub(1000);
  const drawn_B = tensor(new Int32Array(B).fill(-7), [B], { device });
  const kept = maskedSampleKernel(z, temperatures_B, uniforms_B, masks, { plain_3B: marked_3B, drawn_B }).toArray();
  const [marked, tokens, places] = [marked_3B.toArray(), drawn_B.toArray(), masks.masks_B.toArray()];
  for (let row = 0; row < B; row++) {
    const isKept = places[row]! < 0;
    // The log-probability that an unmasked row was drawn with is that at its temperature.
    const parts = isKept ? [0, 1, 2, 1] : [0, 1, 2, 3];
    const expected = parts.map((part) => (isKept ? marked : drawn)[part * B + row]!);
    const isSame = expected.every((value, part) => Object.is(value, kept[part * B + row]) || expected[0] === -1);
    const token = isKept ? -7 : Math.max(0, expected[0]!);
    expect(`${dtype}: row ${row} is drawn after a draw without masks`, isSame && tokens[row] === token);
  }
}

/** A million draws from what a mask leaves: the frequencies are those of the masked softmax. */
function checkFrequencies(): void {
  const [B, V] = [65536, 1000];
  const row_V = randn([V], { device }).mul(2);
  const words = new Int32Array(32);
  const isIn = Array.from({ length: V }, (_, id) => id % 3 !== 0);
  for (let id = 0; id < V; id++) if (isIn[id]) words[id >> 5]! |= 1 << (id & 31);
  const masks = {
    masks_KW: tensor(words, [1, 32], { device }),
    masks_B: tensor(new Int32Array(B), [B], { device }),
  };
  const z = row_V.unsqueeze(0).expand(B, V).contiguous();
  const counts = new Float64Array(V);
  for (let round = 0; round < 16; round++) {
    const ones = tensor(new Float32Array(B).fill(1), [B], { device });
    const tokens = maskedSampleKernel(z, ones, rand([B], { device }), masks)
      .select(0, 0)
      .toArray();
    for (const token of tokens) counts[token]!++;
  }
  const out_V = tensor(
    Float32Array.from(isIn, (one) => (one ? 0 : 1)),
    [V],
    { device },
  ).gt(0);
  const expected = row_V
    .to("float64")
    .maskedFill(out_V, Number.NEGATIVE_INFINITY)
    .softmax(-1)
    .mul(16 * B)
    .toArray();
  let [chi, bins] = [0, 0];
  expected.forEach((count, id) => {
    if (count < 5) return;
    chi += (counts[id]! - count) ** 2 / count;
    bins++;
  });
  expect(`frequencies: chi-square ${chi.toFixed(0)} over ${bins}`, chi < bins + 5 * Math.sqrt(2 * bins));
  console.log(`frequencies: chi-square ${chi.toFixed(0)} over ${bins} bins`);
}

function timeDraws(): void {
  const [B, V] = [64, qwenShape.vocab_size];
  const z = randn([B, V], { device }).to("bfloat16");
  const temperatures_B = tensor(new Float32Array(B).fill(1), [B], { device });
  const uniforms_B = rand([B], { device });
  const W = Math.ceil(V / 32);
  const masks_KW = tensor(new Int32Array(B * W).fill(-2), [B, W], { device });
  const masks_B = tensor(
    Int32Array.from({ length: B }, (_, row) => row),
    [B],
    { device },
  );
  const time = (body: () => Tensor) => 1000 * launchedMs(body, 200);
  const plainUs = time(() => sampleKernel(z, temperatures_B, uniforms_B));
  const maskedUs = time(() => maskedSampleKernel(z, temperatures_B, uniforms_B, { masks_KW, masks_B }));
  console.log(`draws of ${B} x ${V}: ${plainUs.toFixed(1)} us without masks, ${maskedUs.toFixed(1)} us with`);
}

/** Requests for the best tokens take the path that reads every step: asked with and without, replies are the same. */
async function checkEngine(folder: string): Promise<void> {
  const tokenizer = await loadTokenizer(folder);
  const model = createQwenShape({ device, dtype: "bfloat16" });
  const engine = new LocalEngine(model, { tokenizer, contextLength: 256, maxRunning: 16 });
  // None ends before its limit of tokens: steps of other sizes are computed by other kernels, whose scores differ in the last bits.
  const properties = { a: { type: "string" }, b: { type: "string", maxLength: 20 }, c: { type: "number" } };
  const item = { type: "object", properties, required: ["a", "b", "c"] };
  const constraints: readonly (Constraint | undefined)[] = [
    { kind: "json-schema", schema: { type: "array", items: item, minItems: 100 } },
    undefined,
    { kind: "regex", pattern: "([a-z ]{2,9}\\d)+!{300}" },
    { kind: "choice", choices: ["sun", "rain"].map((word) => `It will be ${`${word} `.repeat(100)}`) },
  ];
  const requests = Array.from({ length: 16 }, (_, seed): GenerateRequest => {
    const constraint = constraints[seed % 4];
    // Random weights have nearly equal scores: without a mask the last bits of their sums, which the two paths add up in other pieces, would choose.
    const temperature = constraint === undefined ? 0.05 : [1, 0.7, 0][seed % 3]!;
    const sampling = { maxTokens: 48, temperature, seed };
    const more = constraint && { constraint, stopIds: tokenizer.stopIds };
    return { promptIds: tokenizer.encode("Hello"), sampling: { ...sampling, ...more } };
  });
  // Grammars are compiled first: replies without one would begin alone meanwhile, in smaller steps.
  await Promise.all(requests.map((one) => engine.generate({ ...one, sampling: { ...one.sampling, maxTokens: 1 } })));
  const ahead = await Promise.all(requests.map(engine.generate));
  const read = await Promise.all(requests.map((request) => engine.generate({ ...request, numTopLogprobs: 1 })));
  let [worst, numTokens] = [0, 0];
  ahead.forEach((reply, row) => {
    const other = read[row]!;
    numTokens += reply.tokenIds.length;
    expect(`engine: reply ${row} is the same`, reply.tokenIds.join() === other.tokenIds.join());
    for (const name of ["samplerLogprobs", "modelLogprobs", "drawLogprobs"] as const) {
      reply[name].forEach((value, t) => {
        worst = Math.max(worst, Math.abs(value - other[name][t]!));
      });
    }
    if (row % 4 === 3) console.log(`reply ${row}: ${JSON.stringify(tokenizer.decode(reply.tokenIds))}`);
  });
  expect(`engine: log-probs are off by ${worst}`, worst < TOLERANCE);
  console.log(`engine: ${numTokens} tokens, largest difference of a log-prob ${worst.toExponential(1)}`);
  await engine.close();
  model.dispose();
}
