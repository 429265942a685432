/**
 * Takes episodes with several players apart: the turns of each player are a trajectory with its own reward, and those of one player
 * over the episodes of a prompt are a group, so that a player is compared with itself and never with its opponent.
 */
import type { Trajectory, TrajectoryGroup } from "./trajectory.ts";

/** One group per player, in the order of the groups; a group of episodes without players stays as it is. */
export function splitPlayers(groups: readonly TrajectoryGroup[]): readonly TrajectoryGroup[] {
  return groups.flatMap((group) => {
    const names = new Set(group.trajectories.flatMap(({ reward }) => Object.keys(reward.players ?? {})));
    if (names.size === 0) return [group];
    return [...names].map((name) => {
      const { greedy: all, ...rest } = group;
      const [greedy] = all === undefined ? [] : partOf(all, name);
      const trajectories = group.trajectories.flatMap((trajectory) => partOf(trajectory, name));
      return { ...rest, id: `${group.id}/${name}`, trajectories, ...(greedy && { greedy }) };
    });
  });
}

function partOf(trajectory: Trajectory, name: string): readonly Trajectory[] {
  const { id, groupId, turns, reward } = trajectory;
  const earned = reward.players?.[name];
  if (earned === undefined) return [];
  return [
    {
      ...trajectory,
      id: `${id}/${name}`,
      groupId: `${groupId}/${name}`,
      turns: turns.filter(({ player }) => player === name),
      reward: { total: earned, score: earned, parts: {} },
    },
  ];
}
