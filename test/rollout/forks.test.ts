/** From conversations to samples: one where prompts extend each other, two where the chat template rewrites history. */
import { expect, test } from "vitest";
import { ChatFormat, Conversation } from "../../src/chat/conversation.ts";
import type { Tokenizer } from "../../src/chat/tokenizer/tokenizer.ts";
import { buildSamples } from "../../src/experience/sample-builder.ts";
import type { Turn } from "../../src/flow/trajectory.ts";
import { ended, format, promptOf, tokenizer, turnOf } from "./episode-parts.ts";

const user = (content: string) => ({ role: "user", content });

test("a template that strips thinking breaks the prefix, and the trajectory becomes two samples", async () => {
  const talk = new Conversation(new ChatFormat(stripsThinking()), [], undefined);
  const first = await talk.ask([user("one?")]);
  answer(talk, first, ended("<think>hm</think>yes"));
  const second = await talk.ask([user("two?")]);
  expect(tokenizer.decode(second)).toContain("assistant\nyes<|im_end|>");
  const turns = [turnOf(first, ended("<think>hm</think>yes")), turnOf(second, ended("no"))];
  const { samples, metrics } = buildSamples([groupOf(turns)]);
  expect(metrics).toMatchObject({ "experience/rows": 2, "experience/forks": 1 });
  expect(samples.map(({ tokenIds }) => tokenIds.length)).toEqual([
    first.length + ended("<think>hm</think>yes").length,
    second.length + 3,
  ]);
});

test("without the strip the same conversation is one sample", async () => {
  const talk = new Conversation(format, [], undefined);
  const first = await talk.ask([user("one?")]);
  answer(talk, first, ended("<think>hm</think>yes"));
  const second = await talk.ask([user("two?")]);
  const turns = [turnOf(first, ended("<think>hm</think>yes")), turnOf(second, ended("no"))];
  expect(buildSamples([groupOf(turns)]).metrics).toMatchObject({ "experience/rows": 1, "experience/forks": 0 });
});

function stripsThinking(): Tokenizer {
  const template = tokenizer.chatTemplates
    .get("default")!
    .replace("{{- message.content }}", "{{- message.content.split('</think>')[-1] }}");
  return { ...tokenizer, chatTemplates: new Map([["default", template]]) };
}

function groupOf(turns: readonly Turn[]) {
  const prompt = promptOf(0);
  const timings = { startedMs: 0, queuedMs: 0, generateMs: 0, envMs: 0, rewardMs: 0, totalMs: 0 };
  const trajectory = {
    ...{ id: "0-0", groupId: "0", prompt, sampleIndex: 0, seed: 0, turns, metrics: {}, timings },
    end: { kind: "completed" as const },
    reward: { total: 1, score: 1, parts: {} },
  };
  return { id: "0", prompt, trajectories: [trajectory] };
}

function answer(talk: Conversation, promptIds: Int32Array, ids: readonly number[]): void {
  const { reply, replyText } = turnOf(promptIds, ids);
  talk.answer({ promptIds, reply, replyText });
}
