/**
 * Rows as JSON and back, to the bit: their arrays one after another, deflated, as base64.
 *
 * Prompts repeat and most arrays are runs of zeros, so a token takes about 7 characters instead of the 23 of plain
 * base64.
 */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { JsonValue } from "../flow/prompt.ts";
import type { TokenSample } from "../flow/token-sample.ts";

/** Packs the rows of a group. `weight` is not kept: it belongs to one batch. */
export function packSamples(samples: readonly TokenSample[]): JsonValue {
  const arrays = samples.flatMap(({ tokenIds, samplerLogprobs, versions, rewards, lossMask, onOldCache, teacher }) =>
    [tokenIds, samplerLogprobs, versions, rewards, lossMask, onOldCache, teacher?.promptIds, teacher?.logprobs].filter(
      (array) => array !== undefined,
    ),
  );
  const bytes = Buffer.concat(
    arrays.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength)),
  );
  return {
    samples: samples.map(({ tokenIds, onOldCache, teacher, ...sample }) => ({
      numTokens: tokenIds.length,
      ...factsOf(sample),
      ...(onOldCache !== undefined && { hasOldCache: true }),
      ...(teacher !== undefined && {
        teacher: {
          name: teacher.name,
          numPromptTokens: teacher.promptIds?.length ?? null,
          hasLogprobs: teacher.logprobs !== undefined,
        },
      }),
    })),
    arrays: deflateRawSync(bytes, { level: 1 }).toString("base64"),
  };
}

/** What is kept of a row beside its arrays. */
type SampleFacts = Pick<
  TokenSample,
  "group" | "trajectory" | "turn" | "stateKey" | "isTruncated" | "domain" | "greedy"
>;

function factsOf({ group, trajectory, turn, stateKey, isTruncated, domain, greedy }: SampleFacts): SampleFacts {
  return {
    ...{ group, trajectory, turn, stateKey, isTruncated },
    ...(domain !== undefined && { domain }),
    ...(greedy !== undefined && { greedy }),
  };
}

interface PackedSamples {
  readonly samples: readonly (SampleFacts & {
    readonly numTokens: number;
    readonly hasOldCache?: boolean;
    readonly teacher?: {
      readonly name: string;
      readonly numPromptTokens: number | null;
      readonly hasLogprobs: boolean;
    };
  })[];
  readonly arrays: string;
}

/** The rows that `packSamples` was given. */
export function unpackSamples(packed: JsonValue): readonly TokenSample[] {
  const { samples, arrays } = packed as unknown as PackedSamples;
  const bytes = new Uint8Array(inflateRawSync(Buffer.from(arrays, "base64")));
  let offset = 0;
  const take = (byteLength: number): ArrayBuffer => {
    offset += byteLength;
    return bytes.slice(offset - byteLength, offset).buffer;
  };
  return samples.map(({ numTokens, hasOldCache = false, teacher, ...facts }) => ({
    tokenIds: new Int32Array(take(4 * numTokens)),
    samplerLogprobs: new Float32Array(take(4 * numTokens)),
    versions: new Int32Array(take(4 * numTokens)),
    rewards: new Float32Array(take(4 * numTokens)),
    lossMask: new Uint8Array(take(numTokens)),
    ...(hasOldCache && { onOldCache: new Uint8Array(take(numTokens)) }),
    ...facts,
    ...(teacher !== undefined && {
      teacher: {
        name: teacher.name,
        ...(teacher.numPromptTokens !== null && { promptIds: new Int32Array(take(4 * teacher.numPromptTokens)) }),
        ...(teacher.hasLogprobs && { logprobs: new Float32Array(take(4 * numTokens)) }),
      },
    }),
  }));
}
