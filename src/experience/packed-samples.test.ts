import fc from "fast-check";
import { expect, test } from "vitest";
import type { TokenSample } from "../flow/token-sample.ts";
import { packSamples, unpackSamples } from "./packed-samples.ts";

const ALWAYS = [
  ...(["tokenIds", "lossMask", "samplerLogprobs", "versions", "rewards"] as const),
  ...(["group", "trajectory", "turn", "stateKey", "isTruncated"] as const),
] as const;

const someSample: fc.Arbitrary<TokenSample> = fc
  .array(fc.tuple(fc.nat(200_000), fc.nat(1), fc.float(), fc.integer({ min: -1, max: 99 }), fc.float()), {
    minLength: 1,
    maxLength: 20,
  })
  .chain((tokens) =>
    fc.record(
      {
        onOldCache: fc.constant(Uint8Array.from(tokens, ([, mask]) => mask)),
        tokenIds: fc.constant(Int32Array.from(tokens, ([id]) => id)),
        lossMask: fc.constant(Uint8Array.from(tokens, ([, mask]) => mask)),
        samplerLogprobs: fc.constant(Float32Array.from(tokens, ([, , logprob]) => logprob)),
        versions: fc.constant(Int32Array.from(tokens, ([, , , version]) => version)),
        rewards: fc.constant(Float32Array.from(tokens, ([, , , , reward]) => reward)),
        group: fc.nat(9),
        trajectory: fc.nat(9),
        turn: fc.nat(9),
        stateKey: fc.string({ unit: "binary" }),
        isTruncated: fc.boolean(),
        teacher: fc.record(
          {
            name: fc.string(),
            promptIds: fc.array(fc.nat(200_000)).map((ids) => Int32Array.from(ids)),
            logprobs: fc.constant(Float32Array.from(tokens, ([, , logprob]) => logprob)),
          },
          { requiredKeys: ["name"] },
        ),
      },
      { requiredKeys: [...ALWAYS] },
    ),
  );

test("samples come back to the bit, NaN and -0 among them", () => {
  fc.assert(
    fc.property(fc.array(someSample, { maxLength: 4 }), (samples) => {
      expect(unpackSamples(JSON.parse(JSON.stringify(packSamples(samples))))).toEqual(samples);
    }),
  );
});

test("a sample whose arrays are views of something larger is kept alone", () => {
  const large = Int32Array.of(9, 9, 1, 2, 9);
  const sample: TokenSample = {
    tokenIds: large.subarray(2, 4),
    lossMask: Uint8Array.of(0, 1),
    samplerLogprobs: Float32Array.of(0, -1.5),
    versions: Int32Array.of(-1, 3),
    rewards: Float32Array.of(0, 1),
    ...{ group: 0, trajectory: 0, turn: 0, stateKey: "s", isTruncated: false },
  };
  expect([...unpackSamples(packSamples([sample]))[0]!.tokenIds]).toEqual([1, 2]);
});
