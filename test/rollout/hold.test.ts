/** Partial rollouts from end to end: what is not ready is held in the middle of a reply and goes on under newer weights. */
import { expect, test } from "vitest";
import { admitWanted } from "../../src/rollout/admission.ts";
import { createEpisodeRunner, defaultEpisodeLimits } from "../../src/rollout/episode.ts";
import { RolloutScheduler } from "../../src/rollout/rollout-scheduler.ts";
import { createScriptedEngine } from "../../src/testing/scripted-generate.ts";
import { countingEnv, format } from "./episode-parts.ts";
import { numbered } from "./scripted-episodes.ts";

test("groups that are held keep their tokens, lose no prompt, and end with tokens of two versions", async () => {
  const text = (length: number) => Array.from({ length }, (_, i) => 97 + (i % 26));
  let numRequests = 0;
  const engine = createScriptedEngine({
    version: 0,
    // Every fifth sample is twenty times as long; a piece goes on where the one before stopped.
    reply: ({ promptIds }) => {
      const numDone = promptIds.length - promptLength;
      if (numDone === 0) numRequests++;
      const length = numDone > 0 || numRequests % 5 === 0 ? 200 : 10;
      return { tokenIds: text(length).slice(numDone) };
    },
  });
  // <|im_start|>system\nCount.<|im_end|>\n and <|im_start|>user\nturn 0?<|im_end|>\n and <|im_start|>assistant\n.
  const promptLength = 42;
  const scheduler = new RolloutScheduler({
    runEpisode: createEpisodeRunner({
      generate: engine.generate,
      makeEnv: () => countingEnv(1),
      format,
      sampling: { maxTokens: 500 },
      limits: { ...defaultEpisodeLimits, contextLength: 2048 },
      clock: () => performance.now(),
    }),
    sources: [{ share: 1, source: numbered("p") }],
    options: { groupSize: 2, maxInFlight: 16, admission: admitWanted(4), rest: "hold" },
    seed: 1,
    clock: () => performance.now(),
  });
  const { signal } = new AbortController();
  const delivered: string[] = [];
  let numMixed = 0;
  for (let version = 0; version < 6; version++) {
    engine.publish(version);
    scheduler.setProgress(version);
    const { groups, report } = await scheduler.take(4, signal);
    expect(engine.status()).toMatchObject({ runningRequests: 0, queuedRequests: 0 });
    expect(report).toMatchObject({ failed: [], numAborted: 0 });
    delivered.push(...groups.map(({ prompt }) => prompt.id));
    for (const { replyText, reply } of groups.flatMap(({ trajectories }) =>
      trajectories.map(({ turns }) => turns[0]!),
    )) {
      const length = replyText.length;
      expect([10, 200]).toContain(length);
      expect(replyText).toBe(String.fromCharCode(...text(length)));
      expect([...reply.versions]).toEqual([...reply.versions].sort((a, b) => a - b));
      if (new Set(reply.versions).size > 1) numMixed++;
    }
  }
  await scheduler.close();
  expect(delivered).toHaveLength(24);
  expect(new Set(delivered).size).toBe(24);
  expect(numMixed).toBeGreaterThan(2);
  expect(engine.status().counters.failed).toBe(0);
});
