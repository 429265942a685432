/**
 * What reported log-probabilities mean, and which of ours they give.
 *
 * Four distributions lie between a model and a drawn token: the model's own, the one at the sampling temperature (the sampler's), that with
 * penalties and bias, and that with filters on top, which the token is drawn from. A server reports a log-prob under one of them. It
 * is ours under another one where every step between the two changes nothing; where one does, ours is not known and NaN.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Sampling } from "../generate.ts";

const CHAIN = ["model", "sampler", "unfiltered", "draw"] as const;
type Distribution = (typeof CHAIN)[number];

/** Under what distribution a server reports log-probs. `unfiltered`: after temperature, penalties and bias, before filters. */
export type LogprobMeaning = Exclude<Distribution, "sampler">;

interface SplitLogprobs {
  readonly samplerLogprobs: readonly number[];
  readonly drawLogprobs: readonly number[];
  readonly modelLogprobs: readonly number[];
}

/** Assigns what was reported. Numbers just above 0 are rounding errors of the server. */
export function splitLogprobs(reported: readonly number[], meaning: LogprobMeaning, sampling: Sampling): SplitLogprobs {
  const known = reported.map((logprob) => Math.min(0, logprob));
  const under = (wanted: Distribution) =>
    changesBetween(meaning, wanted, sampling).length === 0 ? known : known.map(() => Number.NaN);
  if (sampling.temperature !== 0) {
    return { samplerLogprobs: under("sampler"), drawLogprobs: under("draw"), modelLogprobs: under("model") };
  }
  // A greedy draw is certain, whatever is reported of it. Servers report it as at temperature 1, or as certain too.
  const certain = known.map(() => 0);
  const modelLogprobs =
    meaning === "draw"
      ? known.map(() => Number.NaN)
      : splitLogprobs(reported, meaning, { ...sampling, temperature: 1 }).modelLogprobs;
  return { samplerLogprobs: certain, drawLogprobs: certain, modelLogprobs };
}

/** Throws when the sampler's log-probs cannot be known for this request: its tokens could not be trained on. */
export function refuseUnknownLogprobs(
  meaning: LogprobMeaning,
  sampling: Sampling,
  server: string,
  remedy: string | undefined,
): void {
  if (sampling.temperature === 0) return;
  const changes = changesBetween(meaning, "sampler", sampling);
  if (changes.length === 0) return;
  throw new RerollError(
    "REMOTE_LOGPROBS_UNKNOWN",
    `${server} does not report log-probs at the sampling temperature over the whole vocabulary, which training needs: it reports them ${WORDS[meaning]}, and ${changes.join(" and ")} makes them differ. ${remedy === undefined ? "" : `${remedy} `}"reroll serve" and the engine of a run report all of them.`,
    { server, changes },
  );
}

const WORDS: Readonly<Record<LogprobMeaning, string>> = {
  model: "at temperature 1",
  unfiltered: "after penalties and bias",
  draw: "after all that changes what tokens are drawn from",
};

/** Whether tokens are drawn from the model's own distribution. */
export function isUntouched(sampling: Sampling): boolean {
  return changesBetween("model", "draw", sampling).length === 0;
}

export function hasFilters({ topK = 0, topP = 1, minP = 0 }: Sampling): boolean {
  return topK > 0 || topP < 1 || minP > 0;
}

/** What makes one distribution differ from the other, in words; empty where nothing does. */
function changesBetween(one: Distribution, other: Distribution, sampling: Sampling): readonly string[] {
  const ends = [CHAIN.indexOf(one), CHAIN.indexOf(other)];
  return stepsOf(sampling)
    .slice(Math.min(...ends), Math.max(...ends))
    .flat();
}

/** What happens on the way from each distribution to the next. */
function stepsOf(sampling: Sampling): readonly (readonly string[])[] {
  const { temperature = 1, repetitionPenalty = 1, logitBias } = sampling;
  return [
    temperature === 1 ? [] : [`temperature ${temperature}`],
    [
      ...(repetitionPenalty === 1 ? [] : [`repetitionPenalty ${repetitionPenalty}`]),
      ...(logitBias === undefined || logitBias.size === 0 ? [] : ["logitBias"]),
    ],
    hasFilters(sampling) ? ["topK, topP or minP"] : [],
  ];
}
