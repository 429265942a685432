/** All rows of IFEval, where the shared data is there. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { z } from "zod";
import {
  checkLoose,
  checkStrict,
  instructions,
  parseInstructions,
} from "../../src/rewards/ifeval/check-instructions.ts";

const path = fileURLToPath(new URL("../../../shared/data/general/ifeval.jsonl", import.meta.url));
const rowSchema = z.object({
  key: z.int(),
  prompt: z.string(),
  instruction_id_list: z.array(z.string()),
  kwargs: z.array(z.record(z.string(), z.json())),
});

test.skipIf(!existsSync(path))("all 541 rows are accepted, and use all 25 kinds (skipped without ../shared)", () => {
  const rows = readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => rowSchema.parse(JSON.parse(line)));
  expect(rows).toHaveLength(541);
  const seen = new Set<string>();
  for (const { instruction_id_list, kwargs, prompt } of rows) {
    const row = parseInstructions({ instruction_id_list, kwargs });
    for (const { id } of row) seen.add(id);
    // Strict is never more than loose, on a text that is at hand for every row: the prompt itself.
    const [strict, loose] = [checkStrict(row, prompt), checkLoose(row, prompt)];
    expect(strict.every((isFollowed, i) => !isFollowed || loose[i])).toBe(true);
  }
  expect([...seen].sort()).toEqual(Object.keys(instructions).sort());
});
