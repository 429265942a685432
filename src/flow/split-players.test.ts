import { expect, test } from "vitest";
import { groupOf } from "../../test/experience/groups.ts";
import { splitPlayers } from "./split-players.ts";
import type { TrajectoryGroup } from "./trajectory.ts";

/** Each player has one turn per episode, whose token says who it is and in which episode. */
function episodes(rewards: readonly Readonly<Record<string, number>>[]): TrajectoryGroup {
  const plain = groupOf(
    "g",
    rewards.map((players, i) => ({
      turns: Object.keys(players).map((_, at) => ({ promptIds: [1], replyIds: [10 * at + i] })),
    })),
  );
  const trajectories = plain.trajectories.map((trajectory, i) => {
    const players = rewards[i]!;
    const turns = trajectory.turns.map((turn, at) => ({ ...turn, player: Object.keys(players)[at]! }));
    return { ...trajectory, turns, reward: { total: 0.5, score: 0.5, parts: {}, players } };
  });
  return { ...plain, trajectories };
}

test("every player has a group of its own, with its turns and rewards", () => {
  const split = splitPlayers([
    episodes([
      { buyer: 1, seller: 0 },
      { buyer: 0.25, seller: 0.75 },
    ]),
  ]);
  const seen = split.map(({ id, trajectories }) => [
    id,
    trajectories.map(({ turns, reward }) => [turns.map(({ reply }) => reply.tokenIds[0]), reward.total]),
  ]);
  expect(seen).toEqual([
    [
      "g/buyer",
      [
        [[0], 1],
        [[1], 0.25],
      ],
    ],
    [
      "g/seller",
      [
        [[10], 0],
        [[11], 0.75],
      ],
    ],
  ]);
});

test("groups without players stay the very same", () => {
  const plain = groupOf("p", [{ turns: [{ promptIds: [1], replyIds: [2] }], score: 1 }]);
  expect(splitPlayers([plain])[0]).toBe(plain);
});
