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

/** How often a score is asked for where all servers are silent: one that was only halted goes on, and its score is not given up before. */
const MAX_SILENT = 6;

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
            return expectScore("remote", await order[i % order.length]!.call("POST", "/v1/scores", input, signal));
          } catch (cause) {
            if (!isServiceLost(cause)) throw cause;
            if (i + 1 >= Math.max(order.length, cause.details.isSilent === true ? MAX_SILENT : 0)) throw cause;
          }
        }
      },
    };
  },
};
