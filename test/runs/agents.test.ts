/** Agents of one's own in run files: what they are told, what they may return, several players, and failures that are certain. */
import OpenAI from "openai";
import { expect, test } from "vitest";
import type { AgentCall, AgentEndpoint, RunAgent } from "../../src/rollout/agent-call.ts";
import { digestOf, trainSmall } from "./small-run.ts";

const rows = ["a color", "an animal", "a city"].map((what) => ({ prompt: `Name ${what}.`, answer: "" }));

function runOf(agent: RunAgent, changes: Record<string, unknown> = {}): Record<string, unknown> {
  const { rollout, ...others } = changes as { rollout?: object };
  return {
    ...{ name: "agents", agent, data: { type: "rows", rows } },
    rollout: { groupsPerStep: 2, groupSize: 4, contextLength: 160, sampling: { maxTokens: 6 }, ...rollout },
    ...{ training: { optimizer: { lr: 1e-4 } }, engine: { threads: 1 }, loop: { type: "sync", steps: 1 } },
    ...others,
  };
}

/** Says one more thing in a conversation, and returns the whole of it. */
async function say(endpoint: AgentEndpoint, { seed, signal }: AgentCall, history: readonly object[], content: string) {
  const { baseURL, apiKey, model } = endpoint;
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const messages = [...history, { role: "user", content }] as OpenAI.Chat.ChatCompletionMessageParam[];
  const reply = await client.chat.completions.create({ model, messages, seed: seed + messages.length }, { signal });
  return [...messages, { role: "assistant", content: reply.choices[0]!.message.content ?? "" }];
}

test("an agent is told the name of the model, and its metrics are those of the run", async () => {
  const seen = new Set<string>();
  const { metrics, trajectories } = await trainSmall(
    runOf(async (prompt, call) => {
      seen.add(call.model);
      const history = await say(call, call, [], String(prompt.messages[0]!.content));
      await say(call, call, history, "Shorter, please.");
      return { reward: call.seed % 2, metrics: { polite: 1, words: 4 } };
    }),
  );
  expect([...seen]).toEqual(["agents"]);
  expect(metrics[0]).toMatchObject({ "env/polite": 1, "env/words": 4, "rollout/turns": 2, "experience/forks": 0 });
  expect(metrics[0]!["train/sampler_gap_max"]).toBeLessThan(1e-4);
  expect(trajectories[0]).toMatchObject({ metrics: { polite: 1, words: 4 } });
});

test("an agent that fails the same way from the start stops the run after a handful, with its own error", async () => {
  let numCalls = 0;
  const run = trainSmall(
    runOf(
      async () => {
        throw new Error(`no key for the shop, request ${numCalls++}`);
      },
      { rollout: { groupsPerStep: 4, groupSize: 8, maxInFlight: 4 } },
    ),
  );
  await expect(run).rejects.toMatchObject({
    code: "ROLLOUT_FAILING",
    message: expect.stringMatching(
      /samples failed alike.*The agent of "general" failed: no key for the shop.*run file\.$/s,
    ),
  });
  expect(numCalls).toBeLessThanOrEqual(24);
});

test("an agent that returns nonsense, asks for a player nobody has, or runs into maxTurns unscored is told what to do", async () => {
  const failing = async (agent: RunAgent, changes: Record<string, unknown> = {}) =>
    trainSmall(runOf(agent, changes)).then(
      () => "",
      (cause: Error) => cause.message,
    );
  const ask: RunAgent = async (_, call) => {
    await say(call, call, [], "Hi");
    return { reward: Number.NaN };
  };
  expect(await failing(ask)).toContain('The agent of "general" failed: the reward must be a finite number between');
  const lost: RunAgent = async (_, call) => call.player("byuer").sessionId.length;
  const players = { buyer: { type: "trained" } };
  expect(await failing(lost, { players })).toContain("Did you mean buyer? Add it under players.");
  const endless: RunAgent = async (_, call) => {
    for (;;) await say(call, call, [], "Hi");
  };
  const stopped = await failing(endless, { rollout: { maxTurns: 2 } });
  expect(stopped).toMatch(/400 Session \S+ has 2 turns, and 2 are allowed/);
  expect(stopped).toContain("It ran into rollout.maxTurns and gave no reward. Catch the error and return one");
});

const haggle: RunAgent = async (_, call) => {
  const [buyer, seller] = [call.player("buyer"), call.player("seller")];
  let offers: object[] = [];
  let answers: object[] = [];
  for (let round = 0; round < 2; round++) {
    offers = await say(buyer, call, offers, `Buy low ${round}`);
    answers = await say(seller, call, answers, "Sell high");
  }
  // Far apart, so that a baseline over both would give all advantages of a player one sign.
  const luck = call.seed % 2;
  return { reward: { buyer: 10 + luck, seller: -10 - luck }, metrics: { luck } };
};

test("players have conversations and rewards of their own, and each is compared with itself", async () => {
  const players = { buyer: { type: "trained" }, seller: { type: "trained" } };
  const { metrics, trajectories } = await trainSmall(runOf(haggle, { players, rollout: { groupSize: 6 } }));
  const [first] = metrics;
  expect(first).toMatchObject({ "rollout/trajectories": 12, "experience/rows": 24, "experience/forks": 0 });
  expect(first!["reward/buyer"]).toBeCloseTo(10 + first!["env/luck"]!, 6);
  expect(first!["reward/seller"]).toBeCloseTo(-10 - first!["env/luck"]!, 6);
  expect(first!["reward/mean"]).toBeCloseTo(0, 6);
  expect(first!["train/sampler_gap_max"]).toBeLessThan(1e-4);
  const mixed = trajectories.filter(
    ({ groupId }) =>
      new Set(trajectories.filter((one) => one.groupId === groupId).map(({ seed }) => seed % 2)).size === 2,
  );
  expect(mixed.length).toBeGreaterThan(0);
  for (const { seed, turns } of mixed) {
    expect(turns.map(({ player }) => player)).toEqual(["buyer", "buyer", "seller", "seller"]);
    const signs = turns.map(({ advantages }) => Math.sign(advantages![0]!));
    const lucky = seed % 2 === 1 ? 1 : -1;
    expect(signs).toEqual([lucky, lucky, -lucky, -lucky]);
  }
});

test("a player that is not trained plays along, and nothing of it is in the batch", async () => {
  const players = { buyer: { type: "trained" }, seller: { type: "untrained" } };
  const { metrics, trajectories } = await trainSmall(runOf(haggle, { players }));
  expect(metrics[0]).toMatchObject({ "rollout/turns": 2, "experience/rows": 8 });
  expect(metrics[0]!["reward/mean"]).toBeGreaterThanOrEqual(10);
  expect(trajectories[0]!.turns.map(({ player }) => player)).toEqual(["buyer", "buyer"]);
});

test("a past player keeps its weights for so many steps and takes up the run's, also where the run was stopped in between", async () => {
  const players = { learner: { type: "trained" }, rival: { type: "past", every: 2 } };
  /** How likely a player finds its first token at a fixed seed: the same number as long as its weights are the same. */
  const weigh = async ({ baseURL, apiKey, model }: AgentEndpoint, seed: number) => {
    const ask = { model, messages: [{ role: "user" as const, content: "Hi" }], logprobs: true, seed };
    const { choices } = await new OpenAI({ baseURL, apiKey, maxRetries: 0 }).chat.completions.create(ask);
    return choices[0]!.logprobs!.content![0]!.logprob;
  };
  const agent: RunAgent = async (_, { player, seed }) => {
    const [, rival] = await Promise.all([weigh(player("learner"), seed), weigh(player("rival"), 7)]);
    return { reward: { learner: seed % 2 }, metrics: { rival } };
  };
  const run = runOf(agent, { players, training: { optimizer: { lr: 1e-2 } }, loop: { type: "sync", steps: 5 } });
  const whole = await trainSmall(run);
  const [first, second, third, fourth, fifth] = whole.metrics.map((step) => step["env/rival"]);
  expect([second, fourth]).toEqual([first, third]);
  expect(new Set([first, third, fifth]).size).toBe(3);
  expect(whole.metrics[0]).toMatchObject({ "rollout/turns": 1, "experience/rows": 8, "experience/forks": 0 });
  expect(whole.plan.join()).toMatch(/past version: weights .+, KV cache /);
  const resumed = await trainSmall(run, 3);
  expect(resumed.metrics).toEqual(whole.metrics);
  expect(digestOf(resumed.weights)).toBe(digestOf(whole.weights));
});

test("players without an agent, and players of whom none is trained, are refused before the run starts", async () => {
  const { agent: _, ...without } = runOf(haggle, { players: { buyer: { type: "trained" } } });
  await expect(trainSmall(without)).rejects.toThrow("players are those of an agent, and agent is not set: got buyer.");
  const frozen = runOf(haggle, { players: { buyer: { type: "untrained" } } });
  await expect(trainSmall(frozen)).rejects.toThrow(
    'players has nobody to train: got buyer. Set the type of at least one to "trained"',
  );
});
