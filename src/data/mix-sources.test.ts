import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Prompt } from "../flow/prompt.ts";
import { datasetSource } from "./dataset-source.ts";
import { mixSources, nextTurn } from "./mix-sources.ts";

const part = (name: string, ratio: number, size = 3, epochs?: number) => {
  const prompts = Array.from({ length: size }, (_, i) => ({
    id: `${name}${i}`,
    domain: name,
    seed: i,
    messages: [],
    truth: null,
    extra: {},
  }));
  return { ratio, source: datasetSource({ name, prompts, seed: 0, isShuffled: false, epochs }) };
};
const domains = (list: readonly Prompt[]) => list.map(({ domain }) => domain).join("");

describe("nextTurn", () => {
  function schedule(ratios: readonly number[], length: number): number[] {
    const given = ratios.map(() => 0);
    return Array.from({ length }, () => {
      const turn = nextTurn(ratios, given);
      given[turn]!++;
      return turn;
    });
  }

  test("takes equal parts in turn", () => {
    expect(schedule([1, 1], 6)).toEqual([0, 1, 0, 1, 0, 1]);
    expect(schedule([5, 5, 5], 6)).toEqual([0, 1, 2, 0, 1, 2]);
  });

  test("spreads 40, 30 and 30 over ten prompts, and repeats after them", () => {
    const turns = schedule([40, 30, 30], 20);
    expect(turns.slice(0, 10)).toEqual(turns.slice(10));
    expect([0, 1, 2].map((i) => turns.slice(0, 10).filter((turn) => turn === i).length)).toEqual([4, 3, 3]);
  });

  test("after any number of prompts no part is off its share by more than 1 - 1/(2n - 2), and no window by 2", () => {
    const ratios = fc.array(
      fc.oneof(fc.integer({ min: 1, max: 1000 }), fc.double({ min: 0.001, max: 10, noNaN: true })),
      {
        minLength: 2,
        maxLength: 7,
      },
    );
    fc.assert(
      fc.property(ratios, (values) => {
        const sum = values.reduce((total, ratio) => total + ratio, 0);
        const given = values.map(() => 0);
        const lowest = values.map(() => 0);
        const highest = values.map(() => 0);
        for (let length = 1; length <= 400; length++) {
          given[nextTurn(values, given)]!++;
          values.forEach((ratio, i) => {
            const off = given[i]! - (ratio / sum) * length;
            lowest[i] = Math.min(lowest[i]!, off);
            highest[i] = Math.max(highest[i]!, off);
          });
        }
        const bound = 1 - 1 / (2 * values.length - 2) + 1e-6;
        expect(Math.max(...highest)).toBeLessThanOrEqual(bound);
        expect(Math.min(...lowest)).toBeGreaterThanOrEqual(-bound);
        // A window is the difference of two lengths.
        expect(Math.max(...highest.map((high, i) => high - lowest[i]!))).toBeLessThan(2);
      }),
      { numRuns: 200 },
    );
  });

  test("a part alone is always next, and a ratio of 0 never", () => {
    expect(schedule([7], 3)).toEqual([0, 0, 0]);
    expect(schedule([0, 2, 0], 3)).toEqual([1, 1, 1]);
  });
});

describe("mixSources", () => {
  test("gives the parts by their ratios, each in its own order", async () => {
    const given = await mixSources([part("a", 2), part("b", 1)]).next(9);
    expect(domains(given)).toBe("abaabaaba");
    expect(given.filter(({ domain }) => domain === "a").map(({ id }) => id)).toEqual([
      "a0",
      "a1",
      "a2",
      "a0",
      "a1",
      "a2",
    ]);
  });

  test("is over when it is the turn of a part that is over", async () => {
    const mix = mixSources([part("a", 2), part("b", 1, 1, 1)]);
    expect(domains(await mix.next(9))).toBe("abaa");
    expect(await mix.next(9)).toEqual([]);
  });

  test("goes on with the other parts until all are over, where asked", async () => {
    const mix = mixSources([part("a", 2, 6, 1), part("b", 1, 1, 1), part("c", 1, 5, 1)], { whenPartEnds: "drop" });
    const given = domains(await mix.next(99));
    expect([...given].toSorted().join("")).toBe("aaaaaabccccc");
    expect(given.endsWith("ccc")).toBe(true);
    expect(mix.size).toBe(12);
  });

  test("has no size where a part has none", () => {
    const endless = { ...part("b", 1).source };
    const { size: _, ...sizeless } = endless;
    expect(mixSources([part("a", 1), { ratio: 1, source: sizeless }]).size).toBeUndefined();
  });

  test("tells every part what came of a prompt", () => {
    const told: string[] = [];
    const listener = (name: string) => ({
      ratio: 1,
      source: {
        ...part(name, 1).source,
        record: (id: string, rewards: readonly number[]) => void told.push(`${name} ${id} ${rewards}`),
      },
    });
    mixSources([listener("a"), part("b", 1), listener("c")]).record?.("a0", [1, 0]);
    expect(told).toEqual(["a a0 1,0", "c a0 1,0"]);
  });

  test("refuses positions of other ratios and of other kinds, also inside of its parts", async () => {
    const position = mixSources([part("a", 2), part("b", 1)]).position();
    await expect(mixSources([part("a", 1), part("b", 1)]).restore(position)).rejects.toThrow(
      "its ratios is [2,1], expected [1,1]",
    );
    await expect(mixSources([part("a", 2), part("c", 1)]).restore(position)).rejects.toThrow(
      'its name is "b", expected "c"',
    );
    await expect(part("a", 1).source.restore(position)).rejects.toThrow('its type is "mix", expected "dataset"');
  });

  test("refuses no parts, and ratios that are not above 0", () => {
    expect(() => mixSources([])).toThrow("A mixture needs at least one part");
    expect(() => mixSources([part("a", 1), part("b", 0)])).toThrow("parts.1.ratio must be a number above 0: got 0.");
  });
});
