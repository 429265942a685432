/** What every engine checks of a request before it takes it: clear errors now instead of strange tokens later. */
import { RerollError } from "../errors/reroll-error.ts";
import type { GenerateRequest, Sampling } from "./generate.ts";

/** What a request must fit. */
export interface RequestLimits {
  readonly vocabSize: number;
  readonly contextLength: number;
}

/** Throws for a request that can never work. */
export function checkRequest(
  { promptIds, sampling, numTopLogprobs = 0 }: GenerateRequest,
  limits: RequestLimits,
): void {
  const { vocabSize, contextLength } = limits;
  if (promptIds.length === 0) throw invalid("promptIds is empty. A prompt has at least one token.");
  for (let i = 0; i < promptIds.length; i++) {
    const id = promptIds[i]!;
    if (!Number.isInteger(id) || id < 0 || id >= vocabSize) {
      throw invalid(`promptIds[${i}] is ${id}. Token ids are integers from 0 to ${vocabSize - 1}.`);
    }
  }
  if (promptIds.length >= contextLength) {
    throw new RerollError(
      "CONTEXT_OVERFLOW",
      `The prompt has ${promptIds.length} tokens; this engine's context is ${contextLength}, with room for a reply. Shorten the prompt.`,
      { promptTokens: promptIds.length, contextLength },
    );
  }
  if (!Number.isInteger(numTopLogprobs) || numTopLogprobs < 0 || numTopLogprobs > vocabSize) {
    throw invalid(`numTopLogprobs must be an integer from 0 to ${vocabSize}: got ${numTopLogprobs}.`);
  }
  checkSampling(sampling, vocabSize);
}

function checkSampling(sampling: Sampling, vocabSize: number): void {
  const { maxTokens, temperature = 1, topK = 0, topP = 1, minP = 0, repetitionPenalty = 1, seed = 0 } = sampling;
  if (!Number.isInteger(maxTokens) || maxTokens < 1)
    throw invalid(`maxTokens must be an integer of at least 1: got ${maxTokens}.`);
  // Scores are single precision: divided by less than this they overflow.
  if (temperature !== 0 && !(temperature >= 1e-6 && temperature < 1e6))
    throw invalid(`temperature must be 0, or from 0.000001 to 1000000: got ${temperature}.`);
  if (!Number.isInteger(topK) || topK < 0) throw invalid(`topK must be an integer, 0 for all tokens: got ${topK}.`);
  if (!(topP > 0 && topP <= 1)) throw invalid(`topP must be above 0 and at most 1: got ${topP}.`);
  if (!(minP >= 0 && minP <= 1)) throw invalid(`minP must be from 0 to 1: got ${minP}.`);
  if (!(repetitionPenalty >= 1e-6 && repetitionPenalty < 1e6))
    throw invalid(`repetitionPenalty must be from 0.000001 to 1000000: got ${repetitionPenalty}.`);
  if (!Number.isSafeInteger(seed) || seed < 0)
    throw invalid(`seed must be an integer from 0 to 2^53 - 1: got ${seed}.`);
  for (const name of ["frequencyPenalty", "presencePenalty"] as const) {
    if (!Number.isFinite(sampling[name] ?? 0)) throw invalid(`${name} must be a finite number: got ${sampling[name]}.`);
  }
  for (const [id, bias] of sampling.logitBias ?? []) {
    if (!Number.isInteger(id) || id < 0 || id >= vocabSize || !(bias < Infinity)) {
      throw invalid(
        `logitBias has ${id}: ${bias}. Keys are token ids below ${vocabSize}; values are finite, or -Infinity for a token that is never drawn.`,
      );
    }
  }
  if (sampling.stopStrings?.some((text) => text === ""))
    throw invalid("stopStrings has an empty string, which every text contains.");
}

function invalid(message: string): RerollError {
  return new RerollError("INVALID_REQUEST", message);
}
