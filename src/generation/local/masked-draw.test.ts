import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { tensorScope } from "../../torch/scope.ts";
import { type DrawRequest, launchDraws } from "./sampler.ts";
import { uniformAt } from "./uniform.ts";

const V = 70;

function maskOf(isAllowed: (id: number) => boolean): Int32Array {
  const mask = new Int32Array(Math.ceil(V / 32));
  for (let id = 0; id < V; id++) if (isAllowed(id)) mask[id >> 5]! |= 1 << (id & 31);
  return mask;
}

/** Rows that allow few tokens, most of them, all, and one; row after row another temperature. */
const masks = [maskOf((id) => id % 9 === 0), maskOf((id) => id % 9 !== 0), null, maskOf((id) => id === 31)];

function requests(more: Partial<DrawRequest["sampling"]>, seed: number): DrawRequest[] {
  return masks.map((mask, row) => ({
    sampling: { maxTokens: 1, temperature: 0.5 + row / 2, ...more },
    tokens: new Int32Array(),
    promptLength: 0,
    mask,
    uniform: uniformAt(seed, row),
    numTopLogprobs: 0,
  }));
}

/** A bias of 0 changes nothing, and takes the way of rows that ask for more than a mask. */
const noBias = { logitBias: new Map([[0, 0]]) };

test("a mask alone draws the tokens and log-probs that scores of -infinity draw", () => {
  tensorScope(() => {
    for (let seed = 0; seed < 20; seed++) {
      const scores = Float32Array.from({ length: 4 * V }, (_, i) => 8 * uniformAt(100 + seed, i));
      const drawn = launchDraws(tensor(scores, [4, V]), requests({}, seed))();
      const expected = launchDraws(tensor(scores, [4, V]), requests(noBias, seed))();
      expect(Array.from(drawn.tokenIds)).toEqual(Array.from(expected.tokenIds));
      for (const name of ["samplerLogprobs", "modelLogprobs", "drawLogprobs"] as const) {
        for (let row = 0; row < 4; row++) expect(drawn[name][row]).toBeCloseTo(expected[name][row]!, 9);
      }
    }
  });
});

test("a token that alone is allowed is drawn for certain, however unlikely it was", () => {
  tensorScope(() => {
    const scores = new Float32Array(4 * V).map((_, i) => (i % V === 31 ? -2000 : 0));
    const drawn = launchDraws(tensor(scores, [4, V]), requests({ temperature: 1 }, 1))();
    expect([drawn.tokenIds[3], drawn.drawLogprobs[3]]).toEqual([31, 0]);
    expect(drawn.samplerLogprobs[3]).toBeCloseTo(-2000 - Math.log(V - 1), 3);
  });
});
