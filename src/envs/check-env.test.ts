import { describe, expect, test } from "vitest";
import { guessNumber } from "../../examples/envs/guess-number.ts";
import { Random } from "../random/random.ts";
import { type CheckEnvOptions, checkEnv } from "./check-env.ts";
import type { EnvFactory, EnvStep, Observation, TextEnv } from "./text-env.ts";

/** The environment of the example with some of its methods replaced. `inner` is the one that works. */
function broken(change: (inner: TextEnv, seed: number) => Partial<TextEnv>): EnvFactory {
  const { makeEnv, makePrompt } = guessNumber();
  return {
    makePrompt: makePrompt!,
    makeEnv: async (prompt, seed) => {
      const inner = await makeEnv(prompt, seed);
      const methods: TextEnv = {
        start: (signal) => inner.start(signal),
        step: (reply, signal) => inner.step(reply, signal),
        randomReply: (random) => inner.randomReply!(random),
        oracleReply: () => inner.oracleReply!(),
        render: () => inner.render!(),
      };
      return Object.assign(methods, change(inner, seed));
    },
  };
}

/** Replaces what steps return. */
const brokenStep = (change: (step: EnvStep) => EnvStep) =>
  broken((inner) => ({ step: async (reply, signal) => change(await inner.step(reply, signal)) }));

/** Replaces what the first observation holds. */
const brokenObservation = (change: (observation: Observation) => Observation) =>
  broken((inner) => ({
    start: async (signal) => {
      const opening = await inner.start(signal);
      return { ...opening, observation: change(opening.observation) };
    },
  }));

const rulesOf = async (factory: EnvFactory, options: CheckEnvOptions = {}) =>
  (await checkEnv(factory, { numEpisodes: 3, ...options })).map(({ rule }) => rule);

test("a sound environment has no findings", async () => {
  expect(await checkEnv(guessNumber())).toEqual([]);
  expect(
    await checkEnv(
      broken(() => ({})),
      { needsOracle: true },
    ),
  ).toEqual([]);
});

test("a finding says what is wrong, what came and what to do", async () => {
  const findings = await checkEnv(brokenStep((step) => ({ ...step, reward: Number.NaN })));
  expect(findings).toEqual([
    { rule: "reward", text: "step gave the reward NaN. A reward is a finite number between -1e18 and 1e18." },
  ]);
});

describe("found are", () => {
  test("metrics that are no numbers", async () => {
    const metrics = JSON.parse('{ "note": "hello" }');
    expect(await rulesOf(brokenStep((step) => ({ ...step, metrics })))).toEqual(["metrics"]);
  });

  test("chance that is not drawn from the seeds", async () => {
    let count = 0;
    expect(await rulesOf(brokenStep((step) => ({ ...step, reward: count++ })))).toEqual(["deterministic"]);
  });

  test("prompts that differ for the same seed", async () => {
    const factory = guessNumber();
    let count = 0;
    const makePrompt = (seed: number) => ({ ...factory.makePrompt!(seed), id: `guess/${count++}` });
    expect(await rulesOf({ ...factory, makePrompt })).toEqual(["deterministic"]);
  });

  test("chance that instances share", async () => {
    // Seeded anew by every episode: repeatable alone, not side by side.
    let shared = new Random(0);
    const factory = broken((inner, seed) => {
      shared = new Random(seed);
      return { step: async (reply, signal) => ({ ...(await inner.step(reply, signal)), reward: shared.uniform() }) };
    });
    expect(await rulesOf(factory)).toEqual(["independent"]);
  });

  test("steps after the end that are taken", async () => {
    let last: EnvStep | undefined;
    const factory = broken((inner) => ({
      step: async (reply, signal) => {
        if (last?.kind === "continues" || last === undefined) last = await inner.step(reply, signal);
        return last;
      },
      start: async (signal) => {
        last = undefined;
        return inner.start(signal);
      },
    }));
    expect(await rulesOf(factory)).toContain("step-after-end");
  });

  test("an end that throws when called again, early, or after a failure", async () => {
    const factory = broken((inner) => {
      let isOpen = false;
      return {
        start: async (signal) => {
          signal.throwIfAborted();
          isOpen = true;
          return inner.start(signal);
        },
        end: () => {
          if (!isOpen) throw new Error("not open");
          isOpen = false;
        },
      };
    });
    expect(await rulesOf(factory)).toEqual(["end-early", "end-twice", "end-after-failure"]);
  });

  test("observations without messages, and messages without content", async () => {
    expect(await rulesOf(brokenObservation((observation) => ({ ...observation, messages: [] })))).toEqual([
      "empty-messages",
    ]);
    const messages = [{ role: "user", content: "" }];
    expect(await rulesOf(brokenObservation((observation) => ({ ...observation, messages })))).toEqual([
      "empty-messages",
    ]);
  });

  test("messages that cannot be written as JSON", async () => {
    const messages = [{ role: "user", content: "x", at: new Date(0) }];
    expect(await rulesOf(brokenObservation((observation) => ({ ...observation, messages })))).toEqual(["json"]);
  });

  test("keys that differ for equal states", async () => {
    // Guessing 100 again and again changes nothing after the first time; the key counts turns.
    const factory = broken((inner) => {
      let turn = 0;
      return {
        randomReply: () => "<answer>100</answer>",
        step: async (reply, signal) => {
          const step = await inner.step(reply, signal);
          return { ...step, observation: { ...step.observation!, stateKey: `turn ${turn++}` } };
        },
      };
    });
    expect(await rulesOf(factory)).toEqual(["state-key"]);
  });

  test("keys that are equal for different states", async () => {
    const factory = brokenStep((step) => ({ ...step, observation: { ...step.observation!, stateKey: "same" } }));
    expect(await rulesOf(factory)).toEqual(["state-key"]);
  });

  test("steps that hold up the event loop, with a clock", async () => {
    let now = 0;
    const factory = broken((inner) => ({
      step: (reply, signal) => {
        now += 80;
        return inner.step(reply, signal);
      },
    }));
    expect(await rulesOf(factory, { clock: () => now })).toEqual(["blocking"]);
    expect(await rulesOf(factory)).toEqual([]);
  });

  test("a step that waits is not one that blocks", async () => {
    let now = 0;
    const factory = broken((inner) => ({
      step: async (reply, signal) => {
        await Promise.resolve();
        now += 80;
        return inner.step(reply, signal);
      },
    }));
    expect(await rulesOf(factory, { clock: () => now })).toEqual([]);
  });

  test("random and oracle replies that cannot be read", async () => {
    expect(await rulesOf(broken(() => ({ randomReply: () => "fifty" })))).toEqual(["random-reply"]);
    expect(await rulesOf(broken(() => ({ oracleReply: () => "fifty" })))).toEqual(["oracle-reply"]);
  });

  test("random and oracle replies that are missing", async () => {
    const { makeEnv, makePrompt } = guessNumber();
    const bare: EnvFactory = {
      makePrompt: makePrompt!,
      makeEnv: async (prompt, seed) => {
        const inner = await makeEnv(prompt, seed);
        return { start: (signal) => inner.start(signal), step: (reply, signal) => inner.step(reply, signal) };
      },
    };
    expect(await rulesOf(bare)).toEqual(["random-reply"]);
    expect(await rulesOf(bare, { needsOracle: true })).toEqual(["random-reply", "oracle-reply"]);
  });

  test("replies that make a step throw", async () => {
    const factory = broken((inner) => ({
      step: (reply, signal) => {
        if (reply.text === "{") JSON.parse(reply.text);
        return inner.step(reply, signal);
      },
    }));
    expect(await rulesOf(factory)).toEqual(["odd-reply"]);
  });

  test("episodes that throw, and factories that make none", async () => {
    const start = () => Promise.reject(new Error("no connection"));
    expect(
      await checkEnv(
        broken(() => ({ start })),
        { numEpisodes: 1 },
      ),
    ).toEqual([{ rule: "throws", text: "Playing an episode throws: no connection" }]);
    const { makeEnv } = guessNumber();
    expect(await rulesOf({ makeEnv })).toEqual(["prompts"]);
  });

  test("episodes that never end", async () => {
    const { makePrompt } = guessNumber();
    const { makeEnv } = guessNumber({ maxGuesses: 100_000 });
    const stuck: EnvFactory = {
      makePrompt: makePrompt!,
      makeEnv: async (prompt, seed) =>
        Object.assign(await makeEnv(prompt, seed), { randomReply: () => "<answer>0</answer>" }),
    };
    expect(await rulesOf(stuck, { maxTurns: 50 })).toEqual(["ends"]);
  });

  test("an opening that later steps change", async () => {
    const factory = broken((inner) => {
      const messages = [{ role: "user", content: "guess" }];
      return {
        start: async (signal) => ({ ...(await inner.start(signal)), observation: { messages } }),
        step: async (reply, signal) => {
          messages.push({ role: "assistant", content: reply.text });
          return inner.step(reply, signal);
        },
      };
    });
    expect(await rulesOf(factory)).toContain("frozen-messages");
  });
});
