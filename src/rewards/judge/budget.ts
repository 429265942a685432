/** How much a judge may cost. */
import { RerollError } from "../../errors/reroll-error.ts";

interface BudgetLimits {
  /** Calls to the server, retries included. */
  readonly maxCalls?: number | undefined;
  /** Tokens of prompts and replies. The call that crosses the limit is the last one. */
  readonly maxTokens?: number | undefined;
}

/** Counts what was spent. */
export interface Budget {
  /** Throws BUDGET_SPENT instead of counting a call that is one too many. */
  spendCall(): void;
  spendTokens(numTokens: number): void;
  readonly numCalls: number;
  readonly numTokens: number;
}

export function createBudget({
  maxCalls = Number.POSITIVE_INFINITY,
  maxTokens = Number.POSITIVE_INFINITY,
}: BudgetLimits): Budget {
  let numCalls = 0;
  let numTokens = 0;
  return {
    spendCall: () => {
      if (numCalls >= maxCalls) throw spent("calls", numCalls, maxCalls, "maxCalls");
      if (numTokens >= maxTokens) throw spent("tokens", numTokens, maxTokens, "maxTokens");
      numCalls++;
    },
    spendTokens: (count) => {
      numTokens += count;
    },
    get numCalls() {
      return numCalls;
    },
    get numTokens() {
      return numTokens;
    },
  };
}

function spent(what: string, used: number, limit: number, key: string): RerollError {
  return new RerollError(
    "BUDGET_SPENT",
    `The budget is spent: ${used} ${what} of ${limit}. Raise ${key}, or stop the run: without a verdict there is no reward.`,
    { used, limit },
  );
}
