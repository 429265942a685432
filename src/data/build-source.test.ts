import { describe, expect, test } from "vitest";
import { z } from "zod";
import { temporaryFolder } from "../../test/data/temporary-folder.ts";
import type { Prompt } from "../flow/prompt.ts";
import { buildSource } from "./build-source.ts";
import { type DataChoice, dataOptions } from "./data-options.ts";

const folder = temporaryFolder();
const math = folder.write("math.jsonl", [1, 2, 3].map((n) => `{"problem":"${n}?","answer":"${n}"}\n`).join(""));
const code = folder.write("code.json", '[{"prompt":"def f","test":"t","entry_point":"f"}]');
const makePrompt = (seed: number): Prompt => ({
  id: `maze:${seed}`,
  domain: "maze",
  seed,
  messages: [],
  truth: null,
  extra: {},
});
const parts = { seed: 1, envs: { maze: { makePrompt }, shop: {} } };

test("a mixture of files and an environment gives prompts by the ratios, and says what it found", async () => {
  const { source, statements } = await buildSource(
    {
      type: "mix",
      parts: [
        { ratio: 40, source: { type: "jsonl", path: math, name: "math" } },
        { ratio: 30, source: { type: "json", path: code, name: "code" } },
        { ratio: 30, source: { type: "curriculum", source: { type: "env", env: "maze" } } },
      ],
    },
    parts,
  );
  const counts = new Map<string, number>();
  for (const { domain } of await source.next(100)) counts.set(domain, (counts.get(domain) ?? 0) + 1);
  expect(Object.fromEntries(counts)).toEqual({ math: 40, code: 30, maze: 30 });
  expect(statements).toEqual([
    "math: 3 of 3 rows; schema math (detected): question from problem, truth from answer",
    "code: 1 of 1 rows; schema humaneval (detected): question from prompt, truth from test + entry_point + prompt",
    "maze: endless train prompts made by the environment",
  ]);
});

test("parts of a mixture that read the same file have orders of their own", async () => {
  const rows = Array.from({ length: 20 }, (_, i) => ({ question: `q${i}` }));
  const same = { ratio: 1, source: { type: "rows", rows } } as const;
  const { source } = await buildSource({ type: "mix", parts: [same, same] }, parts);
  const ids = (await source.next(40)).map(({ id }) => id);
  expect(ids.filter((_, i) => i % 2 === 0)).not.toEqual(ids.filter((_, i) => i % 2 === 1));
});

test("filters, split, template and passes of a run file reach the source", async () => {
  const rows = Array.from({ length: 50 }, (_, i) => ({ question: `q${i % 40}`, answer: i === 3 ? null : i }));
  const choice = {
    type: "rows",
    rows,
    domain: "sums",
    template: { system: "Add." },
    skipIncomplete: true,
    dropDuplicates: true,
    maxPromptChars: 6,
    epochs: 1,
    shuffle: false,
  } as const;
  const all = await (await buildSource(choice, parts)).source.next(99);
  // "Add." and "q0" to "q9" have 6 characters; q3 lacks its first answer, and its copy stands at 43.
  expect(all.map(({ id }) => id)).toEqual([0, 1, 2, 4, 5, 6, 7, 8, 9, 43].map((i) => `rows:${i}`));
  expect(all[0]).toMatchObject({ domain: "sums", messages: [{ role: "system", content: "Add." }, { role: "user" }] });
  const side = (part: "train" | "validation") => buildSource({ ...choice, split: { part, share: 0.5 } }, parts);
  const [train, validation] = [await side("train"), await side("validation")];
  expect(train.source.size! + validation.source.size!).toBe(10);
});

describe("what is refused", () => {
  const refused = (choice: unknown) => buildSource(choice as DataChoice, parts);

  test("an unknown key names the nearest one of the chosen type, at any depth", async () => {
    await expect(refused({ type: "jsonl", path: math, shufle: true })).rejects.toThrow(
      /^data\.shufle is not an option\. Did you mean shuffle\? Known are: type, path, maxBytes, name, schema/,
    );
    const source = { type: "env", env: "maze", numPrompt: 5 };
    await expect(refused({ type: "mix", parts: [{ ratio: 1, source }] })).rejects.toThrow(
      "data.parts.0.source.numPrompt is not an option. Did you mean numPrompts? Known are: type, env, part, numPrompts, epochs, shuffle.",
    );
    await expect(refused({ type: "rows", rows: [{}], fields: { truht: "x" } })).rejects.toThrow(
      "data.fields.truht is not an option. Did you mean truth? Known are: question, messages, truth, id, domain, tools.",
    );
  });

  test("an unknown type lists the known ones", async () => {
    await expect(refused({ type: "parket" })).rejects.toThrow(
      'data.type must be one of jsonl, json, parquet, dataset, rows, env, mix, curriculum: got "parket". Did you mean parquet?',
    );
  });

  test("a wrong value is named with its path", async () => {
    await expect(
      refused({ type: "mix", parts: [{ ratio: -1, source: { type: "env", env: "maze" } }] }),
    ).rejects.toThrow(/^data\.parts\.0\.ratio is not valid: got -1\. /);
  });

  test("an environment that is not there, or makes no prompts", async () => {
    await expect(refused({ type: "env", env: "mase" })).rejects.toThrow(
      'data.env names "mase", which is not an environment of this run. Environments that do: maze.',
    );
    await expect(refused({ type: "env", env: "shop" })).rejects.toThrow(
      'data.env names "shop", which makes no prompts of its own.',
    );
    await expect(refused({ type: "env", env: "toString" })).rejects.toThrow("is not an environment of this run");
  });
});

test("the options have a JSON Schema for editors", () => {
  const schema = JSON.stringify(z.toJSONSchema(dataOptions, { io: "input" }));
  for (const key of ["jsonl", "curriculum", "maxPromptChars", "whenPartEnds"]) expect(schema).toContain(`"${key}"`);
});
