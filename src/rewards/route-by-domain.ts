/** Which reward judges which prompt. */

import { nearestName } from "../errors/nearest-name.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { Prompt } from "../flow/prompt.ts";
import type { Reward } from "./reward.ts";

export interface RewardRoute {
  /** The reward of a prompt; throws UNKNOWN_DOMAIN where there is none. */
  readonly choose: (prompt: Prompt) => Reward;
  /** All of them, to be closed in the end. */
  readonly rewards: readonly Reward[];
}

/** Chooses by `prompt.domain`; `default` takes the domains that are not named. */
export function routeByDomain(byDomain: Readonly<Record<string, Reward>>): RewardRoute {
  const known = new Map(Object.entries(byDomain));
  return {
    choose: ({ id, domain }) => {
      const reward = known.get(domain) ?? known.get("default");
      if (reward !== undefined) return reward;
      const nearest = nearestName(domain, known.keys());
      const hint = nearest === undefined ? "" : ` Nearest: "${nearest}".`;
      throw new RerollError(
        "UNKNOWN_DOMAIN",
        `No reward for domain "${domain}" of prompt "${id}". Rewards are there for: ${[...known.keys()].join(", ")}.${hint} ` +
          "Add the domain, or a reward named default.",
        { domain, prompt: id },
      );
    },
    rewards: [...new Set(known.values())],
  };
}
