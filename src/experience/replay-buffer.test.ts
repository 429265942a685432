import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { groupOf } from "../../test/experience/groups.ts";
import { importanceWeight, ReplayBuffer, type ReplayGroup, type ReplayOptions } from "./replay-buffer.ts";
import { weightsOf } from "./replay-priority.ts";
import { buildSamples } from "./sample-builder.ts";

const options: ReplayOptions = {
  ...{ capacity: 100, eviction: "priority", weights: weightsOf("td-error"), alpha: 1, beta: [1, 1], betaDraws: 1 },
  ...{ halfLife: Infinity, maxAge: Infinity, maxReuse: 1_000_000, seed: 1 },
};

/** A group with one trajectory per reward. Its first token says which it is. */
function groupWith(number: number, rewards: readonly number[], stateKey?: string): Omit<ReplayGroup, "version"> {
  const turn = { promptIds: [number], replyIds: [1, 2], ...(stateKey !== undefined && { stateKey }) };
  const group = groupOf(
    `p${number}`,
    rewards.map((score) => ({ turns: [turn], score })),
  );
  return { group, samples: buildSamples([group]).samples };
}

function add(buffer: ReplayBuffer, groups: readonly Omit<ReplayGroup, "version">[], version: number) {
  return buffer.add(groups.map((group) => ({ ...group, version })));
}

/** A buffer of groups 0, 1, 2, ... with these TD errors. */
function bufferOf(signals: readonly number[], changes: Partial<ReplayOptions> = {}): ReplayBuffer {
  const buffer = new ReplayBuffer({ ...options, ...changes });
  add(
    buffer,
    signals.map((_, i) => groupWith(i, [1])),
    0,
  );
  buffer.update(
    signals.map((_, i) => i),
    signals,
  );
  return buffer;
}

function countsOf(buffer: ReplayBuffer, numDraws: number): readonly number[] {
  const counts = new Array<number>(buffer.numGroups).fill(0);
  for (let i = 0; i < numDraws; i++) for (const { id } of buffer.draw(1, 0)) counts[id]!++;
  return counts;
}

function chiSquare(counts: readonly number[], weights: readonly number[]): number {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const numDraws = counts.reduce((sum, count) => sum + count, 0);
  return counts.reduce((sum, count, i) => {
    const expected = (numDraws * weights[i]!) / total;
    return sum + (count - expected) ** 2 / expected;
  }, 0);
}

/** Of chi-square with 3 degrees of freedom, one in a thousand is larger. */
const LIMIT = 16.27;

describe("draws", () => {
  test("follow the signals to the power of alpha", () => {
    const signals = [1, 2, 4, 9];
    expect(chiSquare(countsOf(bufferOf(signals), 4000), signals)).toBeLessThan(LIMIT);
    const roots = signals.map(Math.sqrt);
    const halved = countsOf(bufferOf(signals, { alpha: 0.5 }), 4000);
    expect(chiSquare(halved, roots)).toBeLessThan(LIMIT);
    expect(chiSquare(halved, signals)).toBeGreaterThan(10 * LIMIT);
    expect(chiSquare(countsOf(bufferOf(signals, { alpha: 0 }), 4000), [1, 1, 1, 1])).toBeLessThan(LIMIT);
  });

  test("halve with every half-life of age", () => {
    const buffer = new ReplayBuffer({ ...options, halfLife: 2 });
    for (const version of [0, 2, 4, 5]) add(buffer, [groupWith(version, [1])], version);
    // Ages 5, 3, 1 and 0.
    const counts = countsOf(buffer, 4000);
    expect(
      chiSquare(
        counts,
        [5, 3, 1, 0].map((age) => 2 ** (-age / 2)),
      ),
    ).toBeLessThan(LIMIT);
  });

  test("stay the same after thousands of half-lives", () => {
    const late = new ReplayBuffer({ ...options, halfLife: 2 });
    add(late, [groupWith(0, [1])], 0);
    for (const version of [100_000, 100_002]) add(late, [groupWith(version, [1])], version);
    const early = new ReplayBuffer({ ...options, halfLife: 2 });
    for (const version of [0, 2]) add(early, [groupWith(version, [1])], version);
    const versions = (buffer: ReplayBuffer, first: number) =>
      Array.from({ length: 50 }, () => buffer.draw(1, 0)[0]!.version - first);
    expect(versions(late, 100_000)).toEqual(versions(early, 0));
  });

  test("of several at once take each group about as often as its share, the heavy one many times over", () => {
    const buffer = bufferOf([97, 1, 1, 1], { beta: [0, 0] });
    const [first] = buffer.draw(4, 0);
    // With beta 0 the weight is the number of times that it was drawn.
    expect(first).toMatchObject({ id: 0 });
    expect(first!.weight).toBeGreaterThanOrEqual(3);
  });

  test("are at most as many as there are groups, and none from an empty buffer", () => {
    expect(new ReplayBuffer(options).draw(5, 0)).toEqual([]);
    expect(bufferOf([1, 1], { beta: [0, 0] }).draw(50, 0)).toMatchObject([{ weight: 1 }, { weight: 1 }]);
  });
});

describe("weights", () => {
  test("are one over N P to the power of beta, over the largest", () => {
    const drawn = bufferOf([1, 3], { beta: [0.5, 0.5] }).draw(2, 0);
    // N P is 1/2 and 3/2. The draws lie in [0, 2) and [2, 4) of [0, 1 | 1, 4).
    const raw = [0.5 ** -0.5, 1.5 ** -0.5];
    for (const { id, weight } of drawn) {
      const times = drawn.length === 1 ? 2 : 1;
      const largest = drawn.length === 1 ? raw[id]! : raw[0]!;
      expect(weight).toBeCloseTo((times * raw[id]!) / largest, 12);
    }
  });

  test("make the mean over draws that of all groups, whatever the signals", () => {
    const signal = fc.double({ min: 0.2, max: 5, noNaN: true });
    fc.assert(
      fc.property(fc.array(signal, { minLength: 2, maxLength: 8 }), fc.nat(1000), (signals, seed) => {
        const buffer = bufferOf(signals, { seed });
        const numGroups = signals.length;
        const total = signals.reduce((sum, value) => sum + value, 0);
        const quantityOf = (id: number) => (id * 7) % 5;
        const numRounds = 2000;
        let [sum, squares] = [0, 0];
        for (let round = 0; round < numRounds; round++) {
          for (const { id } of buffer.draw(1, 0)) {
            const value = importanceWeight(signals[id]! / total, numGroups, 1) * quantityOf(id);
            sum += value;
            squares += value ** 2;
          }
        }
        const mean = sum / numRounds;
        const error = Math.sqrt((squares / numRounds - mean ** 2) / numRounds);
        const expected = signals.reduce((all, _, id) => all + quantityOf(id), 0) / numGroups;
        expect(Math.abs(mean - expected)).toBeLessThan(4.5 * error + 1e-9);
      }),
      { numRuns: 20, seed: 11 },
    );
  });

  test("of stratified draws too, and what draw gives is proportional to them", () => {
    const signals = [1, 2, 3, 4, 10];
    const buffer = bufferOf(signals);
    const sums = new Array<number>(5).fill(0);
    for (let round = 0; round < 4000; round++) {
      const drawn = buffer.draw(3, 0);
      const probability = (id: number) => signals[id]! / 20;
      const largest = Math.max(...drawn.map(({ id }) => importanceWeight(probability(id), 5, 1)));
      // Undoing the division by the largest of each draw leaves the plain weights.
      for (const { id, weight } of drawn) sums[id]! += (weight * largest) / (3 * 4000);
    }
    for (const sum of sums) expect(sum).toBeCloseTo(1 / 5, 1);
  });

  test("undo more as beta rises", () => {
    const buffer = bufferOf([1, 1], { beta: [0.4, 1], betaDraws: 3 });
    const betas = Array.from({ length: 5 }, () => {
      const { beta } = buffer;
      buffer.draw(1, 0);
      return Number(beta.toFixed(6));
    });
    expect(betas).toEqual([0.4, 0.6, 0.8, 1, 1]);
  });
});

describe("priorities", () => {
  /** How often each of the groups is drawn in 3000 draws, as a share. */
  const sharesOf = (priority: Parameters<typeof weightsOf>[0], groups: Parameters<typeof add>[1]) => {
    const buffer = new ReplayBuffer({ ...options, weights: weightsOf(priority) });
    add(buffer, groups, 0);
    return countsOf(buffer, 3000).map((count) => count / 3000);
  };

  test("advantage counts the deviation of rewards in a group", () => {
    // Deviations 0, 1 and 3.
    const [flat, near, far] = sharesOf("advantage", [
      groupWith(0, [5, 5]),
      groupWith(1, [0, 2]),
      groupWith(2, [-3, 3]),
    ]);
    expect(flat).toBe(0);
    expect(near).toBeCloseTo(0.25, 1);
    expect(far).toBeCloseTo(0.75, 1);
  });

  test("reward counts the size of rewards", () => {
    const [small, large] = sharesOf("reward", [groupWith(0, [1, 0]), groupWith(1, [-2, -1])]);
    expect(small).toBeCloseTo(0.25, 1);
    expect(large).toBeCloseTo(0.75, 1);
  });

  test("rarity counts how few groups have the same states, and changes when more come", () => {
    const states = ["a", "a", "a", "b"].map((key, i) => groupWith(i, [1], key));
    const shares = sharesOf("rarity", states);
    // 1/3, 1/3, 1/3 and 1: half of the draws are the rare one.
    expect(shares[3]).toBeCloseTo(0.5, 1);
    const buffer = new ReplayBuffer({ ...options, weights: weightsOf("rarity") });
    add(buffer, states, 0);
    add(buffer, [groupWith(4, [1], "b")], 1);
    // Now 1/3 three times and 1/2 twice.
    expect(chiSquare(countsOf(buffer, 3000), [1 / 3, 1 / 3, 1 / 3, 1 / 2, 1 / 2])).toBeLessThan(18.5);
  });

  test("several signals are multiplied, each to the power of its weight", () => {
    // Deviations 1 and 2 with states that one and three groups have; recency does not count.
    const groups = [groupWith(0, [0, 2], "rare"), ...[1, 2, 3].map((i) => groupWith(i, [-2, 2], "often"))];
    const weights = weightsOf({ recency: 0, advantage: 2, rarity: 0.5 });
    const buffer = new ReplayBuffer({ ...options, weights, halfLife: 1 });
    for (const [version, group] of groups.entries()) add(buffer, [group], version);
    const often = 2 ** 2 * (1 / 3) ** 0.5;
    expect(chiSquare(countsOf(buffer, 4000), [1, often, often, often])).toBeLessThan(LIMIT);
    expect(weightsOf("reward")).toEqual(weightsOf({ reward: 1 }));
    expect(weightsOf("uniform")).toEqual(weightsOf({}));
  });

  test("recency counts by its weight", () => {
    const buffer = new ReplayBuffer({ ...options, weights: weightsOf({ recency: 2 }), halfLife: 2 });
    for (const version of [0, 1, 2, 3]) add(buffer, [groupWith(version, [1])], version);
    expect(chiSquare(countsOf(buffer, 4000), [1, 2, 4, 8])).toBeLessThan(LIMIT);
  });

  test("start at the largest TD error known, and become what training found", () => {
    const buffer = new ReplayBuffer(options);
    expect(add(buffer, [groupWith(0, [1]), groupWith(1, [1])], 0)).toEqual([0, 1]);
    buffer.update([0, 1], [0.5, 2]);
    // A group without a sample is not kept and has no id.
    const empty = { ...groupWith(8, [1]), samples: [] };
    expect(add(buffer, [empty, groupWith(2, [1]), groupWith(3, [1])], 0)).toEqual([null, 2, 3]);
    expect(chiSquare(countsOf(buffer, 4000), [0.5, 2, 2, 2])).toBeLessThan(LIMIT);
    buffer.update([2, 3], [0.5, 1]);
    expect(chiSquare(countsOf(buffer, 4000), [0.5, 2, 0.5, 1])).toBeLessThan(LIMIT);
  });

  test("are what update says from then on, and groups that are gone do not mind", () => {
    const buffer = bufferOf([1, 1]);
    buffer.update([1, 77], [0.25, 3]);
    expect(chiSquare(countsOf(buffer, 3000), [0.8, 0.2])).toBeLessThan(LIMIT);
    expect(() => buffer.update([0], [Number.NaN])).toThrow(/TD error must be finite and at least 0: got NaN/);
  });
});

describe("capacity", () => {
  test("counts trajectories, and the lowest priority goes first", () => {
    const buffer = new ReplayBuffer({ ...options, capacity: 6, weights: weightsOf("advantage") });
    add(buffer, [groupWith(0, [0, 4]), groupWith(1, [0, 2]), groupWith(2, [0, 6])], 0);
    expect([buffer.numGroups, buffer.numTrajectories]).toEqual([3, 6]);
    add(buffer, [groupWith(3, [0, 8])], 0);
    expect(idsIn(buffer)).toEqual([0, 2, 3]);
    // The new one is the lowest itself.
    add(buffer, [groupWith(4, [0, 1])], 0);
    expect(idsIn(buffer)).toEqual([0, 2, 3]);
  });

  test("of equal priorities the oldest goes first, and age lowers a priority", () => {
    const buffer = new ReplayBuffer({ ...options, capacity: 2, weights: weightsOf("uniform") });
    for (const number of [0, 1, 2]) add(buffer, [groupWith(number, [1])], 0);
    expect(idsIn(buffer)).toEqual([1, 2]);
    const aging = new ReplayBuffer({ ...options, capacity: 2, halfLife: 1, weights: weightsOf("reward") });
    add(aging, [groupWith(0, [8])], 0);
    add(aging, [groupWith(1, [1.5])], 2);
    add(aging, [groupWith(2, [1])], 3);
    // At version 3 they are worth 1, 0.75 and 1.
    expect(idsIn(aging)).toEqual([0, 2]);
  });

  test("the oldest goes first where that is asked for, whatever it is worth", () => {
    const buffer = new ReplayBuffer({ ...options, capacity: 2, eviction: "age", weights: weightsOf("reward") });
    // Held back, the one of version 1 comes after that of version 2.
    for (const [version, reward] of [
      [0, 9],
      [2, 1],
      [1, 5],
    ] as const)
      add(buffer, [groupWith(version, [reward])], version);
    expect(idsIn(buffer)).toEqual([1, 2]);
    add(buffer, [groupWith(3, [0.5])], 3);
    expect(idsIn(buffer)).toEqual([1, 3]);
  });

  test("no group is drawn for weights that are more than maxAge steps ahead of its oldest token", () => {
    const buffer = new ReplayBuffer({ ...options, maxAge: 2, beta: [0, 0] });
    for (const version of [0, 1, 2]) add(buffer, [groupWith(version, [1])], version);
    expect(buffer.draw(100, 2).map(({ version }) => version)).toEqual([0, 1, 2]);
    expect(buffer.draw(100, 3).map(({ version }) => version)).toEqual([1, 2]);
    expect(buffer.draw(100, 5)).toEqual([]);
    expect(buffer.numTrajectories).toBe(0);
  });

  test("a group is gone after it was replayed as often as allowed", () => {
    const buffer = bufferOf([1, 1, 1], { maxReuse: 2, beta: [0, 0] });
    expect(buffer.draw(3, 0)).toHaveLength(3);
    expect(buffer.draw(3, 0)).toHaveLength(3);
    expect(buffer.numGroups).toBe(0);
    expect(buffer.draw(3, 0)).toEqual([]);
  });

  test("no group is kept that has no sample", () => {
    const buffer = new ReplayBuffer(options);
    const { group } = groupWith(0, [1]);
    add(buffer, [{ group, samples: [] }], 0);
    expect(buffer.numGroups).toBe(0);
  });
});

test("what is restored draws as if it had never stopped, through JSON", () => {
  const step = fc.record({
    rewards: fc.array(fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 1, maxLength: 3 }), { maxLength: 3 }),
    numDraws: fc.nat(4),
    signal: fc.option(fc.double({ min: 0, max: 4, noNaN: true })),
    state: fc.constantFrom("a", "b", "c"),
  });
  const priorities = fc.constantFrom("uniform", "advantage", "reward", "rarity" as const);
  fc.assert(
    fc.property(fc.array(step, { minLength: 2, maxLength: 12 }), priorities, fc.nat(11), (steps, priority, stopAt) => {
      const settings: ReplayOptions = {
        ...{
          ...options,
          weights: weightsOf(priority),
          capacity: 9,
          alpha: 0.7,
          beta: [0.4, 1],
          betaDraws: 6,
          halfLife: 1.5,
          maxReuse: 2,
        },
      };
      const whole = new ReplayBuffer(settings);
      let stopped = new ReplayBuffer(settings);
      for (const [index, { rewards, numDraws, signal, state }] of steps.entries()) {
        const run = (buffer: ReplayBuffer) => {
          const drawn = buffer.draw(numDraws, 0);
          add(
            buffer,
            rewards.map((own, i) => groupWith(10 * index + i, own, state)),
            300 * index,
          );
          if (signal !== null) buffer.update([index], [signal]);
          return drawn;
        };
        const expected = run(whole);
        expect(run(stopped)).toEqual(expected);
        if (index === stopAt) {
          const saved = JSON.stringify(stopped.position());
          stopped = new ReplayBuffer(settings);
          stopped.restore(JSON.parse(saved));
        }
      }
      expect(stopped.position()).toEqual(whole.position());
    }),
    { numRuns: 60 },
  );
});

test("a saved buffer does not fit a smaller one", () => {
  const saved = bufferOf([1, 1, 1]).position();
  const small = new ReplayBuffer({ ...options, capacity: 2 });
  expect(() => small.restore(saved)).toThrow(/replay.capacity is 2.*3 trajectories/);
});

function idsIn(buffer: ReplayBuffer): readonly number[] {
  const { entries } = buffer.position() as unknown as { readonly entries: readonly { readonly id: number }[] };
  return entries.map(({ id }) => id).sort((a, b) => a - b);
}

test("a group is drawn at most maxReuse times, also within one draw", () => {
  const buffer = bufferOf([1000, 1e-6, 1e-6, 1e-6], { maxReuse: 3 });
  // All four draws fall on the first group: three count, with three times its weight, and then it is gone.
  const [first, ...others] = buffer.draw(4, 0);
  expect([first?.weight, others.length, buffer.numGroups]).toEqual([3, 0, 3]);
});
