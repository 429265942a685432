import { describe, expect, test } from "vitest";
import type { Prompt } from "../flow/prompt.ts";
import { datasetSource } from "./dataset-source.ts";
import { envSource } from "./env-source.ts";

const prompt = (id: string, seed = 0): Prompt => ({ id, domain: "d", seed, messages: [], truth: null, extra: {} });
const prompts = ["a", "b", "c", "d", "e"].map((id) => prompt(id));
const dataset = (options: Partial<Parameters<typeof datasetSource>[0]> = {}) =>
  datasetSource({ name: "letters", prompts, seed: 1, ...options });
const ids = (list: readonly Prompt[]) => list.map(({ id }) => id);

describe("datasetSource", () => {
  test("gives every prompt once in each pass, in another order, and goes on without end", async () => {
    const given = ids(await dataset().next(500));
    const orders = new Set<string>();
    for (let i = 0; i < 500; i += 5) {
      const pass = given.slice(i, i + 5);
      expect(pass.toSorted()).toEqual(["a", "b", "c", "d", "e"]);
      orders.add(pass.join(""));
    }
    // 100 draws of 120 orders give 68 different ones on average.
    expect(orders.size).toBeGreaterThan(50);
  });

  test("the same seed gives the same order, however it is asked for", async () => {
    const one = dataset();
    const parts = [...(await one.next(3)), ...(await one.next(0)), ...(await one.next(9))];
    expect(parts).toEqual(await dataset().next(12));
    expect(ids(await dataset({ seed: 2 }).next(12))).not.toEqual(ids(parts));
  });

  test("ends after the passes that were asked for, and keeps the order of the file without a shuffle", async () => {
    const source = dataset({ epochs: 2, isShuffled: false });
    expect(ids(await source.next(7)).join("")).toBe("abcdeab");
    expect(ids(await source.next(7)).join("")).toBe("cde");
    expect(await source.next(7)).toEqual([]);
    expect(source.size).toBe(5);
  });

  test("goes on with more passes where a run that had ended is given more", async () => {
    const source = dataset({ epochs: 1, isShuffled: false });
    await source.next(5);
    const longer = dataset({ epochs: 2, isShuffled: false });
    await longer.restore(source.position());
    expect(ids(await longer.next(9)).join("")).toBe("abcde");
  });

  test("refuses positions of other data, another seed or another kind, and says what differs", async () => {
    const position = dataset().position();
    const refuse = (other: ReturnType<typeof dataset>, message: string) =>
      expect(other.restore(position)).rejects.toMatchObject({
        code: "STATE_MISMATCH",
        message: expect.stringContaining(message),
      });
    await refuse(dataset({ name: "numbers" }), 'its name is "letters", expected "numbers"');
    await refuse(dataset({ seed: 2 }), "its shuffle is 1, expected 2");
    await refuse(dataset({ prompts: prompts.slice(1) }), "its digest is");
    await refuse(dataset({ prompts: prompts.toReversed() }), "its digest is");
    await refuse(
      envSource({ name: "letters", makePrompt: () => prompt("x"), part: "train", seed: 1 }),
      'its type is "dataset", expected "env"',
    );
    await expect(dataset().restore(null)).rejects.toThrow('its type is nothing, expected "dataset"');
    await expect(dataset().restore({ ...(position as object), index: 5 })).rejects.toThrow("its index is");
  });

  test("refuses an empty set and a count that is not whole", async () => {
    expect(() => dataset({ prompts: [] })).toThrow('The data set "letters" has no prompts.');
    await expect(dataset().next(-1)).rejects.toThrow("next needs a whole number of prompts, 0 or more: got -1.");
  });
});

describe("envSource", () => {
  const env = (options: Partial<Parameters<typeof envSource>[0]> = {}) =>
    envSource({ name: "maze", makePrompt: (seed) => prompt(`maze:${seed}`, seed), part: "train", seed: 1, ...options });
  const seeds = (list: readonly Prompt[]) => list.map(({ seed }) => seed);

  test("training seeds lie below 2^31 and validation seeds above, for every seed of the run", async () => {
    for (let seed = 0; seed < 20; seed++) {
      expect(seeds(await env({ seed }).next(50)).every((value) => value >= 0 && value < 2 ** 31)).toBe(true);
      const validation = seeds(await env({ seed, part: "validation" }).next(50));
      expect(validation.every((value) => value >= 2 ** 31 && value < 2 ** 32)).toBe(true);
    }
  });

  test("training makes a new task for every prompt, others for another run", async () => {
    const first = seeds(await env().next(1000));
    expect(new Set(first).size).toBe(1000);
    expect(seeds(await env({ seed: 2 }).next(5))).not.toEqual(first.slice(0, 5));
    expect(env().size).toBeUndefined();
  });

  test("validation is the same set for every run", async () => {
    const set = async (seed: number) =>
      seeds(await env({ seed, part: "validation", numPrompts: 8, epochs: 1 }).next(99)).toSorted();
    expect(await set(1)).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map((i) => 2 ** 31 + i));
    expect(await set(2)).toEqual(await set(1));
  });

  test("a limited set comes again in each pass, in another order", async () => {
    const source = env({ numPrompts: 20 });
    const first = seeds(await source.next(20));
    const second = seeds(await source.next(20));
    expect(second).not.toEqual(first);
    expect(second.toSorted()).toEqual(first.toSorted());
    expect(source.size).toBe(20);
  });

  test("is past a prompt that cannot be made, and says its seed", async () => {
    const makePrompt = (seed: number) => {
      if (seed % 2 === 0) throw new Error("odd seeds only");
      return prompt(`maze:${seed}`, seed);
    };
    const source = env({ makePrompt, part: "validation" });
    await expect(source.next(1)).rejects.toThrow(
      'makePrompt(2147483648) of the environment "maze" failed: odd seeds only',
    );
    expect(seeds(await source.next(1))).toEqual([2 ** 31 + 1]);
    const nothing = env({ makePrompt: () => undefined as never });
    await expect(nothing.next(1)).rejects.toMatchObject({ code: "PROMPT_FAILED" });
  });

  test("refuses the position of the other part", async () => {
    await expect(env({ part: "validation" }).restore(env().position())).rejects.toThrow(
      'its part is "train", expected "validation"',
    );
  });
});
