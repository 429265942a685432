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
  timeoutSeconds: z.number().positive().default(300).describe("How long one attempt at a score may take."),
});

/** The server chooses among its rewards by the domain of the prompt, as a run does. */
export const remoteReward: RewardDefinition<typeof options> = {
  type: "remote",
  options,
  build: ({ url, apiKey, timeoutSeconds }) => {
    const clients = (Array.isArray(url) ? url : [url]).map(
      (one) => new ServiceClient({ url: one.reveal(), apiKey: apiKey?.reveal(), timeoutMs: 1000 * timeoutSeconds }),
    );
    let next = 0;
    return {
      name: "remote",
      cost: "network",
      score: async (input, signal): Promise<RewardScore> => {
        const first = next++;
        for (let i = 0; ; i++) {
          const client = clients[(first + i) % clients.length]!;
          try {
            return expectScore("remote", await client.call("POST", "/v1/scores", input, signal));
          } catch (cause) {
            if (!isServiceLost(cause) || i + 1 >= clients.length) throw cause;
          }
        }
      },
    };
  },
};
