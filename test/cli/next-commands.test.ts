/** What a finished run proposes to do next is something that works. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { callReroll } from "./call-reroll.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-next-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("a tuning run proposes eval only where it has rows to be measured on", async () => {
  const rows = ["a", "b", "c", "d"].map((prompt) => ({ prompt, completion: prompt }));
  const run = {
    ...{ kind: "tuning", name: "plain", model: { preset: "nano" }, objective: { type: "supervised" } },
    data: { type: "rows", rows },
    loop: { steps: 1, rowsPerStep: 2 },
    training: { optimizer: { lr: 1e-3 } },
    tracking: { folder: join(folder, "runs") },
  };
  writeFileSync(join(folder, "run.json"), JSON.stringify(run));
  const plain = await callReroll("train", join(folder, "run.json"));
  expect(plain).toMatchObject({ code: 0 });
  expect(plain.stdout).toContain("export");
  expect(plain.stdout).not.toContain(" eval ");
  const measured = ["--set", "validation.share=0.5", "--name", "measured"];
  expect((await callReroll("train", join(folder, "run.json"), ...measured)).stdout).toContain(" eval ");
});

test("a run that fails before its warm start has saved anything has nothing to be resumed", async () => {
  const file = join(folder, "no-prompts.ts");
  const fail = '() => { throw new Error("no prompts here"); }';
  const tracking = { folder: join(folder, "warm"), tensorboard: false };
  writeFileSync(
    file,
    `export default {
      device: "cpu", model: { preset: "nano" }, warmStart: { type: "play", steps: 2 },
      envs: { coin: { type: "custom", makePrompt: ${fail}, makeEnv: ${fail} } },
      rollout: { groupsPerStep: 2, groupSize: 2, contextLength: 64, sampling: { maxTokens: 4 } },
      training: { optimizer: { lr: 1e-3 } }, tracking: ${JSON.stringify(tracking)},
    };`,
  );
  const { code, stdout, stderr } = await callReroll("train", file);
  expect(code).toBe(1);
  expect(stderr).toContain("no prompts here");
  expect(stdout).not.toContain("--resume");
});

test("a control run that is asked to reply says in a sentence what can be done with it", async () => {
  const checkpoint = join(folder, "balance/checkpoints/step-000001");
  mkdirSync(join(checkpoint, "model"), { recursive: true });
  writeFileSync(join(checkpoint, "loop.json"), "{}");
  writeFileSync(join(checkpoint, "model/policy.json"), "{}");
  for (const words of [["generate", "--prompt", "Hi"], ["serve"], ["eval", "--benchmark", "gsm8k", "--data", folder]]) {
    const [command, ...others] = words as [string, ...string[]];
    const { code, stderr } = await callReroll(command, join(folder, "balance"), ...others);
    expect(code).toBe(2);
    expect(stderr).toContain("holds the policy of a control run, which has no language to reply in");
    expect(stderr).toContain('"reroll eval" with its --run-file measures it');
  }
});
