/** What tests of episodes share: the fixture tokenizer, a prompt, a task, and environments that do as they are told. */

import { ChatFormat } from "../../src/chat/conversation.ts";
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import type { EnvStep, TextEnv } from "../../src/envs/text-env.ts";
import type { Prompt } from "../../src/flow/prompt.ts";
import type { Turn } from "../../src/flow/trajectory.ts";
import type { EpisodeTask } from "../../src/rollout/episode.ts";

/** Bytes are their own ids; 256 ends a text, 257 and 258 are <|im_start|> and <|im_end|>. */
export const tokenizer = await loadTokenizer("fixtures/tokenizer");
export const format = new ChatFormat(tokenizer);
export const END = 258;

/** The tokens of a text, and the end of a reply behind them. */
export function ended(text: string): readonly number[] {
  return [...tokenizer.encode(text), END];
}

export function promptOf(seed: number, domain = "test"): Prompt {
  return { id: `${domain}/${seed}`, domain, seed, messages: [], truth: null, extra: {} };
}

export const task: EpisodeTask = {
  id: "0-0",
  groupId: "0",
  prompt: promptOf(0),
  sampleIndex: 0,
  seed: 5,
  queuedMs: 7,
};

/** Asks "turn 0?", "turn 1?", ... and pays 1 for every reply, until `numTurns` are over. */
export function countingEnv(numTurns: number, changes: Partial<TextEnv> = {}): TextEnv & { numEnds: () => number } {
  let turn = 0;
  let numEnds = 0;
  const observe = () => ({ messages: [{ role: "user", content: `turn ${turn}?` }], stateKey: `at ${turn}` });
  return {
    start: () => ({ instructions: [{ role: "system", content: "Count." }], observation: observe() }),
    step: ({ isCut }): EnvStep => {
      turn++;
      const facts = { reward: 1, metrics: { cut: Number(isCut) } };
      return turn < numTurns
        ? { kind: "continues", ...facts, observation: observe() }
        : { kind: "terminated", ...facts };
    },
    ...changes,
    end: async () => {
      numEnds++;
      await changes.end?.();
    },
    numEnds: () => numEnds,
  };
}

/** A turn with these reply tokens, each with log-prob and version 0. */
export function turnOf(promptIds: Int32Array, ids: readonly number[]): Turn {
  const tokenIds = Int32Array.from(ids);
  const zeros = new Float32Array(ids.length);
  const versions = new Int32Array(ids.length);
  const logprobs = { samplerLogprobs: zeros, drawLogprobs: zeros, modelLogprobs: zeros };
  const reply = { tokenIds, ...logprobs, versions, cacheVersions: versions };
  return {
    ...{ promptIds, reply, replyText: format.replyText(reply), messages: [], finish: "stop", reward: 0, metrics: {} },
    ...{ startedMs: 0, generateMs: 0, envMs: 0 },
  };
}
