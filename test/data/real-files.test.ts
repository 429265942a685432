/** Data sets as their publishers made them, where they lie beside the repository. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { loadPrompts } from "../../src/data/load-prompts.ts";
import type { DataFormatName } from "../../src/data/read-rows.ts";

const data = fileURLToPath(new URL("../../../shared/data", import.meta.url));
const files: readonly (readonly [string, DataFormatName, string, number, string])[] = [
  ["gsm8k/train.jsonl", "jsonl", "gsm8k", 7473, "math"],
  ["gsm8k/test.jsonl", "jsonl", "gsm8k", 1319, "math"],
  ["math/deepmath-5k.jsonl", "jsonl", "roll", 4994, "deepmath_103k"],
  ["math/math-train-7k.json", "json", "math", 7472, "math"],
  ["math/math500.jsonl", "jsonl", "math", 500, "math"],
  ["code/HumanEval.jsonl", "jsonl", "humaneval", 164, "code"],
  ["code/mbpp.jsonl", "jsonl", "mbpp", 974, "code"],
  ["general/ifeval.jsonl", "jsonl", "ifeval", 541, "instructions"],
  ["general/multi-subject.jsonl", "jsonl", "roll", 2058, "RLVR"],
  ["general/gpqa-diamond.jsonl", "jsonl", "roll", 198, "gpqa_diamond_boxed"],
];

describe.skipIf(!existsSync(data))("data sets in ../shared/data (skipped where there are none)", () => {
  test.each(files)("%s is read whole, by the schema that fits", async (path, format, schema, numPrompts, domain) => {
    const set = await loadPrompts(format, join(data, path), { skipsIncomplete: true });
    expect(set.statement).toContain(`schema ${schema} (detected)`);
    expect(set.prompts).toHaveLength(numPrompts);
    expect(new Set(set.prompts.map(({ id }) => id)).size).toBe(numPrompts);
    expect(set.prompts[0]?.domain).toBe(domain);
    expect(set.prompts.every(({ truth, messages }) => truth !== null && messages.at(-1)?.role === "user")).toBe(true);
  });

  test("the answers of gsm8k are numbers", async () => {
    const { prompts } = await loadPrompts("jsonl", join(data, "gsm8k"), { name: "gsm8k" });
    expect(prompts).toHaveLength(7473 + 1319);
    expect(prompts.filter(({ truth }) => !/^-?\d+(?:\.\d+)?$/.test(String(truth)))).toEqual([]);
    expect(prompts.find(({ id }) => id === "gsm8k/train:0")?.truth).toBe("72");
  });
});
