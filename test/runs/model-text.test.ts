/** Replies that hold up whoever reads them, or that say the task again: a run scores what it should, in seconds. */
import { join } from "node:path";
import { expect, test } from "vitest";
import type { TrajectoryRecord } from "../../src/tracking/trajectory-record.ts";
import { inFolder } from "./lake-run.ts";
import { writeOneWordModel } from "./one-word-model.ts";
import { type SmallRun, trainSmall } from "./small-run.ts";

const tildes = "~".repeat(8000);
const spaces = `answer${" ".repeat(100_000)}`;
const costly = `${"a".repeat(40)}!`;
const boxed = (answer: string) => `\\boxed{${answer}}`;
const replies = [
  ...[tildes, spaces, costly],
  ...["1024", "2^{10}", "120", "5!", "391", "782/2", "0", "10^{-400}"].map(boxed),
];

/** Every reply is one token, to one of the truths. */
const train = (truths: readonly string[], reward: object): Promise<SmallRun> =>
  inFolder((root) =>
    trainSmall({
      model: { path: writeOneWordModel(join(root, "model"), replies) },
      data: { type: "rows", rows: truths.map((answer) => ({ prompt: "so", answer })) },
      rewards: { default: reward },
      rollout: { groupsPerStep: truths.length, groupSize: 32, contextLength: 16, sampling: { maxTokens: 1 } },
      training: { optimizer: { lr: 1e-3 } },
      loop: { type: "sync", steps: 1 },
    }),
  );

test("8,000 tildes and 100,000 spaces are read at once; the task said again and what is nearly 0 earn nothing", async () => {
  const { metrics, trajectories } = await train(["1024", "120", "391", "0"], { type: "math", symbolic: false });
  expect(metrics[0]!["rollout/failed_share"]).toBe(0);
  const texts = new Set(trajectories.map(({ turns }) => turns[0]!.replyText));
  for (const reply of replies) expect(texts, reply.slice(0, 20)).toContain(reply);
  for (const { turns, prompt, reward, timings } of trajectories) {
    expect(reward.total).toBe(turns[0]!.replyText === boxed(String(prompt.truth)) ? 1 : 0);
    // Minutes and ten seconds, where they are read in quadratic time.
    expect(timings.rewardMs).toBeLessThan(5000);
  }
}, 60_000);

test("a pattern that never comes to an end on some replies scores the others meanwhile", async () => {
  const { trajectories } = await train(["", "?"], { type: "regex", pattern: "^\\\\boxed|(a+)+$" });
  const isCostly = ({ turns }: TrajectoryRecord) => turns[0]!.replyText === costly;
  const endedMs = ({ timings }: TrajectoryRecord) => timings.startedMs + timings.totalMs;
  const held = trajectories.filter(isCostly);
  for (const { end } of held) expect(end).toMatchObject({ kind: "failed" });
  const others = trajectories.filter((one) => !isCostly(one));
  for (const { turns, reward, end } of others) {
    expect(end.kind).not.toBe("failed");
    expect(reward.total).toBe(turns[0]!.replyText.startsWith("\\boxed") ? 1 : 0);
  }
  // The first costly one is among the first twelve, and takes its whole second: of the others, some begin after it and end before it, and nearly none
  // waits for one like it. How many there are in that second depends on the machine.
  const rewardMs = ({ timings }: TrajectoryRecord) => timings.rewardMs;
  const first = held.reduce((a, b) => (endedMs(a) < endedMs(b) ? a : b));
  const isMeanwhile = (one: TrajectoryRecord) =>
    endedMs(one) - rewardMs(one) > endedMs(first) - rewardMs(first) && endedMs(one) < endedMs(first);
  expect(others.some(isMeanwhile)).toBe(true);
  const quick = others.filter((one) => rewardMs(one) < Math.min(...held.map(rewardMs)) / 2);
  expect(quick.length).toBeGreaterThan(0.75 * others.length);
}, 60_000);
