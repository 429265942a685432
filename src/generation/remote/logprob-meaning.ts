/**
 * What reported log-probabilities mean, and which of ours they give.
 *
 * A server reports one number per token: under the model itself, or under the distribution it drew from. The two are the
 * same when nothing changes the distribution. A sampler log-prob that is not known makes the request useless for
 * training, so it is refused; a model log-prob that is not known is NaN.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Sampling } from "../generate.ts";

/** Under what distribution a server reports log-probs. `tempered`: after temperature and penalties, before filters. */
export type LogprobMeaning = "model" | "tempered" | "sampler";

interface SplitLogprobs {
  readonly samplerLogprobs: readonly number[];
  readonly modelLogprobs: readonly number[];
}

/** Assigns what was reported. Numbers just above 0 are rounding errors of the server. */
export function splitLogprobs(reported: readonly number[], meaning: LogprobMeaning, sampling: Sampling): SplitLogprobs {
  const known = reported.map((logprob) => Math.min(0, logprob));
  const isGreedy = sampling.temperature === 0;
  return {
    // A greedy draw is certain, whatever is reported of it.
    samplerLogprobs: isGreedy ? known.map(() => 0) : known,
    modelLogprobs: givesModelLogprobs(meaning, sampling) ? known : known.map(() => Number.NaN),
  };
}

/** Throws when the sampler's log-probs cannot be known for this request. */
export function refuseUnknownLogprobs(
  meaning: LogprobMeaning,
  sampling: Sampling,
  server: string,
  remedy: string,
): void {
  if (meaning === "sampler" || sampling.temperature === 0) return;
  const changes = [
    ...(meaning === "model" ? changesOfScores(sampling) : []),
    ...(hasFilters(sampling) ? ["topK, topP or minP"] : []),
  ];
  if (changes.length === 0) return;
  throw new RerollError(
    "REMOTE_LOGPROBS_UNKNOWN",
    `${server} does not report the log-probs of the distribution that tokens are drawn from, and ${changes.join(" and ")} makes it differ. ${remedy}`,
    { server, changes },
  );
}

/** Whether tokens are drawn from the model's own distribution. */
export function isUntouched(sampling: Sampling): boolean {
  return changesOfScores(sampling).length === 0 && !hasFilters(sampling);
}

function givesModelLogprobs(meaning: LogprobMeaning, sampling: Sampling): boolean {
  switch (meaning) {
    case "model":
      return true;
    case "tempered":
      // Greedy draws are reported as at temperature 1.
      return changesOfScores(sampling.temperature === 0 ? { ...sampling, temperature: 1 } : sampling).length === 0;
    case "sampler":
      return isUntouched(sampling);
  }
}

function changesOfScores({ temperature = 1, repetitionPenalty = 1, logitBias }: Sampling): readonly string[] {
  return [
    ...(temperature === 1 ? [] : [`temperature ${temperature}`]),
    ...(repetitionPenalty === 1 ? [] : [`repetitionPenalty ${repetitionPenalty}`]),
    ...(logitBias === undefined || logitBias.size === 0 ? [] : ["logitBias"]),
  ];
}

export function hasFilters({ topK = 0, topP = 1, minP = 0 }: Sampling): boolean {
  return topK > 0 || topP < 1 || minP > 0;
}
