/** Every row of the shared question sets can be judged, where the data is there. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { z } from "zod";
import { buildReward } from "../../src/rewards/catalog.ts";
import { never, rewardInput } from "./reward-input.ts";

const folder = fileURLToPath(new URL("../../../shared/data/general/", import.meta.url));
const isMissing = !existsSync(folder);
const rowSchema = z.object({ prompt: z.string(), ground_truth: z.string() });

function rowsOf(name: string) {
  return readFileSync(`${folder}${name}`, "utf8")
    .trim()
    .split("\n")
    .map((line) => rowSchema.parse(JSON.parse(line)));
}

test.skipIf(isMissing)(
  "GPQA: the right letter in a box is right, the next one wrong (skipped without ../shared)",
  async () => {
    const reward = await buildReward({ type: "choice", letters: "ABCD" });
    const rows = rowsOf("gpqa-diamond.jsonl");
    expect(rows.length).toBeGreaterThan(150);
    for (const { ground_truth: truth } of rows) {
      const other = "ABCDA"["ABCD".indexOf(truth) + 1];
      const scoreOf = async (reply: string) => (await reward.score(rewardInput(reply, truth), never)).value;
      expect([await scoreOf(`So it is \\boxed{${truth}}.`), await scoreOf(`So it is \\boxed{${other}}.`)]).toEqual([
        1, 0,
      ]);
    }
  },
);

test.skipIf(isMissing)(
  "multi-subject: the truth after the asked words is right (skipped without ../shared)",
  async () => {
    const reward = await buildReward({ type: "exact", after: "the answer is" });
    for (const { ground_truth: truth } of rowsOf("multi-subject.jsonl")) {
      const right = await reward.score(rewardInput(`Thought.\nTherefore, the answer is ${truth}`, truth), never);
      const wrong = await reward.score(rewardInput(`Thought.\nTherefore, the answer is not ${truth}`, truth), never);
      expect([truth, right.value, wrong.value]).toEqual([truth, 1, 0]);
    }
  },
);
