/**
 * Subjects measured turn by turn in one run. The machine is shared and its speed drifts; a turn of each in every round
 * spreads that over all of them.
 */
import { type Summary, summarize } from "./statistics.ts";

/** One measurement. Processor time counts all threads and is hardly disturbed by other programs, wall time is. */
export interface Sample {
  readonly wall: number;
  readonly cpu: number;
}

export interface Timing {
  readonly wall: Summary;
  readonly cpu: Summary;
}

/** A turn: one or more measurements. */
export type Turn = () => Promise<readonly Sample[]>;

export interface TurnOptions {
  /** Rounds before those that count. Default 1. */
  readonly warmUpRounds?: number;
  /** A subject slower than this times the fastest, after two rounds, sits out the others. Default: none does. */
  readonly hopelessRatio?: number;
}

/** Calls every subject once a round, another one first in each, and sums up what they measured after the warm-up. */
export async function takeTurns<Name extends string>(
  subjects: Readonly<Record<Name, Turn>>,
  rounds: number,
  { warmUpRounds = 1, hopelessRatio = Number.POSITIVE_INFINITY }: TurnOptions = {},
): Promise<Record<Name, Timing>> {
  const names = Object.keys(subjects) as Name[];
  const samples = new Map<Name, Sample[]>(names.map((name) => [name, []]));
  const medianOf = (name: Name) => timingOf(samples.get(name)!).wall.median;
  for (let round = -warmUpRounds; round < rounds; round++) {
    const bound = hopelessRatio * Math.min(...names.map(medianOf));
    const taking = names.filter((name) => round < 2 || medianOf(name) <= bound);
    for (let i = 0; i < taking.length; i++) {
      const name = taking[(i + round + warmUpRounds) % taking.length]!;
      const measured = await subjects[name]();
      if (round >= 0) samples.get(name)!.push(...measured);
    }
  }
  return Object.fromEntries([...samples].map(([name, list]) => [name, timingOf(list)])) as Record<Name, Timing>;
}

/** Runs `body` and measures it, in milliseconds. */
export function measure(body: () => void): Sample {
  const cpu = process.cpuUsage();
  const start = performance.now();
  body();
  const wall = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return { wall, cpu: (user + system) / 1000 };
}

function timingOf(samples: readonly Sample[]): Timing {
  return {
    wall: summarize(samples.map(({ wall }) => wall)),
    cpu: summarize(samples.map(({ cpu }) => cpu)),
  };
}
