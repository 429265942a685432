/**
 * An engine that is split over two ranks which share one GPU, beside a whole one: the same tokens in float32, and log-probs of both number formats.
 * Ranks speak through host memory here, so speed is printed and says nothing about ranks with a GPU each.
 *
 * Usage: split-engine <model folder> [cpu]
 */
import type { Generation } from "../../src/generation/generate.ts";
import { startThreadedEngine, type ThreadedEngine } from "../../src/generation/local/threaded-engine.ts";

const [folder = "", device = "cuda:0"] = process.argv.slice(2);
const options = { contextLength: 192, maxRunning: 32, isSteady: true };

async function draw(engine: ThreadedEngine): Promise<readonly Generation[]> {
  return Promise.all(
    Array.from({ length: 16 }, (_, i) =>
      engine.generate({
        promptIds: Int32Array.from({ length: 24 + 5 * (i >> 1) }, (_, k) => 300 + 37 * k + 11 * (i >> 1)),
        sampling: { maxTokens: 48, temperature: 1, seed: 1000 + i },
      }),
    ),
  );
}

for (const dtype of ["float32", "bfloat16"] as const) {
  const split = { tensor: 2, expert: 1, devices: [device, device] };
  const engines = [
    await startThreadedEngine({ folder, device, dtype, options }),
    await startThreadedEngine({ folder, device, dtype, options, split }),
  ];
  const drawn: (readonly Generation[])[] = [];
  const seconds: number[] = [];
  for (const engine of engines) {
    await draw(engine);
    const startedMs = performance.now();
    drawn.push(await draw(engine));
    seconds.push((performance.now() - startedMs) / 1000);
  }
  console.log(JSON.stringify({ dtype, ...compare(drawn[0]!, drawn[1]!), seconds, ...describe(engines) }));
  for (const engine of engines) await engine.close();
}

/** Tokens of a reply count up to the first that differs. */
function compare(whole: readonly Generation[], split: readonly Generation[]) {
  let [numSame, numTokens, most] = [0, 0, 0];
  whole.forEach(({ tokenIds, samplerLogprobs }, i) => {
    numTokens += tokenIds.length;
    const other = split[i]!;
    for (let k = 0; k < tokenIds.length && tokenIds[k] === other.tokenIds[k]; k++) {
      numSame++;
      most = Math.max(most, Math.abs(samplerLogprobs[k]! - other.samplerLogprobs[k]!));
    }
  });
  return { numTokens, numSame, largestLogprobGap: most };
}

function describe([whole, split]: readonly ThreadedEngine[]) {
  const [all, first] = [whole!.status(), split!.status()];
  return { wholeBytes: all.memoryBytes, firstRankBytes: first.memoryBytes, decoding: first.decoding };
}
