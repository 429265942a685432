/** A reward on another machine: a server of `reroll serve-environments` is sent what a reward sees, and answers with the score. */
import { z } from "zod";
import { address, secret } from "../errors/secret.ts";
import { isServiceLost, ServiceClient } from "../services/service-client.ts";
import type { RewardDefinition, RewardScore } from "./reward.ts";
import { expectScore } from "./reward-failure.ts";

const options = z.strictObject({
  url: z
    .union([address(), z.array(address()).min(1)])
    .describe("Address of the server, or a list of addresses of servers that share the work."),
  apiKey: secret().nullable().default(null).describe("API key of the servers, sent as a bearer token."),
  timeoutSeconds: z
    .number()
    .positive()
    .default(300)
    .describe(
      "How long one attempt at a score may take. A server that gives no sign of life is given up after 20 seconds, whatever is said here.",
    ),
});

/**
 * How often a score is asked for where all servers are lost: one that starts again, or was only halted, has nearly the time of a score to be back. An
 * ask of one that cannot be reached lasts 8 seconds. Where none ever answered, the address may be wrong, and each is asked once.
 */
const MAX_ASKED = 14;

/** The server chooses among its rewards by the domain of the prompt, as a run does. */
export const remoteReward: RewardDefinition<typeof options> = {
  type: "remote",
  options,
  build: ({ url, apiKey, timeoutSeconds }) => {
    const clients = (Array.isArray(url) ? url : [url]).map(
      (one) =>
        new ServiceClient({
          ...{ url: one.reveal(), apiKey: apiKey?.reveal() },
          ...{ timeoutMs: 1000 * timeoutSeconds, signPath: "/v1/environments" },
        }),
    );
    let next = 0;
    let hasAnswered = false;
    return {
      name: "remote",
      cost: "network",
      score: async (input, signal): Promise<RewardScore> => {
        const turn = next++;
        const inTurn = clients.map((_, i) => clients[(turn + i) % clients.length]!);
        // Those that were lost lately come last.
        const order = inTurn.sort((a, b) => a.lostAs - b.lostAs);
        for (let i = 0; ; i++) {
          try {
            const score = await order[i % order.length]!.call("POST", "/v1/scores", input, signal);
            hasAnswered = true;
            return expectScore("remote", score);
          } catch (cause) {
            if (!isServiceLost(cause)) throw cause;
            const isExpected = hasAnswered || cause.details.isSilent === true;
            if (i + 1 >= Math.max(order.length, isExpected ? MAX_ASKED : 0)) throw cause;
          }
        }
      },
    };
  },
};
