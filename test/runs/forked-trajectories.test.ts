/** Runs whose trajectories are several rows each: a trajectory counts once, and time runs through all of its turns. */
import { describe, expect, test } from "vitest";
import type { EnvFactory, EnvStep } from "../../src/envs/text-env.ts";
import type { TrajectoryRecord } from "../../src/tracking/trajectory-record.ts";
import { trainSmall } from "./small-run.ts";

/** Episodes that do not care what the model says: the rewards of their turns, one list after the other in every group. */
function scripted(...scripts: readonly (readonly number[])[]): EnvFactory {
  const numMade = new Map<string, number>();
  return {
    words: { words: ["go", "left", "right"], endWords: [] },
    makePrompt: (seed) => ({ id: `p${seed}`, domain: "scripted", seed, messages: [], truth: null, extra: {} }),
    makeEnv: ({ id }) => {
      const made = numMade.get(id) ?? 0;
      numMade.set(id, made + 1);
      const rewards = scripts[made % scripts.length]!;
      const observation = { messages: [{ role: "user" as const, content: "go" }] };
      let turn = 0;
      return {
        start: () => ({ instructions: [], observation }),
        step: (): EnvStep => {
          const reward = rewards[turn++]!;
          if (turn === rewards.length) return { kind: "terminated", reward, metrics: {} };
          return { kind: "continues", reward, metrics: {}, observation };
        },
      };
    },
  };
}

const rollout = { groupsPerStep: 2, groupSize: 4, context: "turn", contextLength: 16, sampling: { maxTokens: 2 } };
const common = { engine: { threads: 1 }, training: { threads: 1, optimizer: { lr: 1e-4 } } };
const loss = [0, 0, 0, 0, 0, 0, 0, 0];

/** The advantages of all tokens, turn by turn. */
function advantagesOf({ turns }: TrajectoryRecord): readonly (readonly number[])[] {
  return turns.map(({ advantages }) => advantages!);
}

describe("two wins of one turn against two losses of eight", () => {
  test.each([
    { algorithm: { type: "grpo" }, win: 0.86602 },
    { algorithm: { type: "rloo" }, win: 0.66667 },
  ])("$algorithm.type compares trajectories, each once", async ({ algorithm, win }) => {
    const env = { type: "custom", ...scripted([1], [1], loss, loss) };
    const { metrics, trajectories } = await trainSmall({
      ...common,
      envs: { scripted: env },
      rollout,
      algorithm,
      loop: { type: "sync", steps: 1 },
    });
    expect(trajectories).toHaveLength(8);
    for (const trajectory of trajectories) {
      const expected = trajectory.reward.total === 1 ? win : -win;
      expect(trajectory.turns).toHaveLength(trajectory.reward.total === 1 ? 1 : 8);
      for (const advantage of advantagesOf(trajectory).flat()) expect(advantage).toBeCloseTo(expected, 4);
    }
    expect(metrics[0]).toMatchObject({ "reward/mean": 0.5, "score/reward": 0.5, "experience/rows": 2 * 18 });
  });

  test("an agent that calls others in contexts of their own is one trajectory too", async () => {
    const numStarted = new Map<string, number>();
    const agent = async (prompt: { id: string }, { baseURL, apiKey }: { baseURL: string; apiKey: string }) => {
      const started = numStarted.get(prompt.id) ?? 0;
      numStarted.set(prompt.id, started + 1);
      const isWin = started < 2;
      for (let call = 0; call < (isWin ? 1 : 8); call++) {
        const messages = [{ role: "user", content: `${call} for ${prompt.id}` }];
        const headers = { "content-type": "application/json", authorization: `Bearer ${apiKey}` };
        const body = JSON.stringify({ messages, max_tokens: 2 });
        const answer = await fetch(`${baseURL}/chat/completions`, { method: "POST", headers, body });
        if (!answer.ok) throw new Error(await answer.text());
      }
      return isWin ? 1 : 0;
    };
    const { metrics, trajectories } = await trainSmall({
      ...common,
      agent,
      data: { type: "rows", rows: [0, 1].map((id) => ({ id: `task${id}`, prompt: `task ${id}`, answer: "x" })) },
      rollout: { ...rollout, context: "conversation", contextLength: 128 },
      algorithm: { type: "grpo" },
      loop: { type: "sync", steps: 1 },
    });
    expect(trajectories).toHaveLength(8);
    expect(metrics[0]).toMatchObject({ "reward/mean": 0.5, "score/reward": 0.5, "experience/forks": 28 });
    for (const trajectory of trajectories) {
      const expected = trajectory.reward.total === 1 ? 0.86602 : -0.86602;
      for (const advantage of advantagesOf(trajectory).flat()) expect(advantage).toBeCloseTo(expected, 4);
    }
  });
});

test.each([{ algorithm: { type: "ppo", lambda: 1, whitensAdvantages: false } }, { algorithm: { type: "reinforce" } }])(
  "$algorithm.type gives every turn the rewards that are still to come",
  async ({ algorithm }) => {
    const { trajectories, metrics } = await trainSmall({
      ...common,
      envs: { scripted: { type: "custom", ...scripted([1, 0, -2]) } },
      rollout: { ...rollout, groupSize: 2 },
      algorithm,
      loop: { type: "sync", steps: 1 },
    });
    expect(trajectories).toHaveLength(4);
    // The critic's first values are 0, so that its targets are the advantages.
    for (const trajectory of trajectories) {
      expect(advantagesOf(trajectory)).toEqual([
        [-1, -1],
        [-2, -2],
        [-2, -2],
      ]);
    }
    expect(metrics[0]).toMatchObject({ "reward/mean": -1, "score/reward": -1 });
  },
);
