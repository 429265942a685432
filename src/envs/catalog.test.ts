import { expect, test } from "vitest";
import { buildEnv, envCatalog } from "./catalog.ts";

test("types are unique and sorted", () => {
  const types = envCatalog.map(({ type }) => type);
  expect(types).toEqual([...new Set(types)].sort());
});

test("an environment is built from its type and options", async () => {
  const { makeEnv, makePrompt } = buildEnv({ type: "frozen-lake", size: 2, holeRate: 0 });
  expect((await makeEnv(makePrompt!(1), 0)).render?.()).toMatch(/^[PG_]{2}\n[PG_]{2}$/);
});

test("an unknown type is refused with those that are known", () => {
  expect(() => buildEnv({ type: "frozenlake" })).toThrow(/"frozenlake" is not known. Built in are: .*frozen-lake/);
});

test("every option of every environment is described", () => {
  for (const { type, options } of envCatalog) {
    const undescribed = Object.entries(options.shape).filter(([, schema]) => !schema.description);
    expect({ type, undescribed: undescribed.map(([name]) => name) }).toEqual({ type, undescribed: [] });
  }
});

test("wrong options are refused by name", () => {
  const build = () => buildEnv({ type: "sokoban", size: 3, boxes: 2 });
  expect(build).toThrow(/Env "sokoban" cannot be built(.|\n)*boxes(.|\n)*size|size(.|\n)*boxes/);
});
