/**
 * A preference whose truth is known: name so many things of a kind. Used to measure reward models, PPO and preference runs.
 *
 * A reply is worth the share of what was asked for that it gives, less half of that for every word that is wrong, repeated or too many.
 * A careless writer supplies replies, good and bad; pairs of them are labeled as a person would who sees the worth but is not always
 * sure of it (Bradley-Terry). Everything follows from seeds, and the words are few enough for a model that starts from nothing.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { wordTokenizerFiles } from "../src/chat/tokenizer/word-tokenizer.ts";
import { createPreset, type PresetName } from "../src/models/causal-lm/presets.ts";
import { saveCausalLm } from "../src/models/causal-lm/save-causal-lm.ts";
import { deriveSeed, Random } from "../src/random/random.ts";

const things = {
  fruit: ["apple", "pear", "plum", "fig", "grape", "melon"],
  animals: ["cat", "dog", "horse", "cow", "goat", "hen"],
  colors: ["red", "blue", "green", "black", "white", "brown"],
  tools: ["saw", "drill", "hammer", "file", "chisel", "plane"],
} as const;
const counts = { two: 2, three: 3, four: 4 } as const;
const END = ".";

type Kind = keyof typeof things;
type Count = keyof typeof counts;

/** How sure the labels are: the log-odds that a reply is preferred, per unit of worth. */
const SURENESS = 12;

/** A pair in the form that preference and reward-model runs read. */
export interface PreferencePair {
  readonly prompt: string;
  readonly chosen: string;
  readonly rejected: string;
}

/** The prompt of a seed, such as "name three fruit :". */
export function drawPrompt(seed: number): string {
  const random = new Random(deriveSeed(seed, "prompt"));
  const count = random.pick(Object.keys(counts));
  return `name ${count} ${random.pick(Object.keys(things))} :`;
}

/** What a reply to a prompt is worth, from 0 to 1. */
export function trueReward(prompt: string, reply: string): number {
  const { kind, count } = readPrompt(prompt);
  const words = reply.split(" ").filter((word) => word !== "" && word !== END);
  const asked: readonly string[] = things[kind];
  const right = new Set(words.filter((word) => asked.includes(word)));
  const numRight = Math.min(right.size, count);
  return Math.max(0, (numRight - 0.5 * (words.length - numRight)) / count);
}

/** A reply by the careless writer, who is better on some days than on others. It ends with ".". */
export function drawReply(prompt: string, seed: number): string {
  const { kind, count } = readPrompt(prompt);
  const random = new Random(deriveSeed(seed, "reply"));
  const care = random.uniform();
  const numWords = Math.max(1, count + (random.uniform() < care ? 0 : random.pick([-1, 1, 2])));
  const words: string[] = [];
  while (words.length < numWords) {
    const wanted = random.uniform() < 0.4 + 0.6 * care ? kind : random.pick(Object.keys(things) as Kind[]);
    const word = random.pick(things[wanted]);
    if (!words.includes(word) || random.uniform() > care) words.push(word);
  }
  return [...words, END].join(" ");
}

interface PairOptions {
  /** Labeled by worth alone, as for an honest test. */
  readonly isSure?: boolean;
  /** How much the two must differ in worth. Default: at all. */
  readonly minGap?: number;
}

/** Two replies of different worth, and which of them was preferred. */
export function drawPair(seed: number, { isSure = false, minGap = 0 }: PairOptions = {}): PreferencePair {
  const prompt = drawPrompt(seed);
  const random = new Random(deriveSeed(seed, "pair"));
  for (let attempt = 0; ; attempt++) {
    const [first, second] = [0, 1].map((which) => drawReply(prompt, deriveSeed(seed, "pair", attempt, which))) as [
      string,
      string,
    ];
    const gap = trueReward(prompt, first) - trueReward(prompt, second);
    if (gap === 0 || Math.abs(gap) < minGap) continue;
    const isFirst = isSure ? gap > 0 : random.uniform() < 1 / (1 + Math.exp(-SURENESS * gap));
    return isFirst ? { prompt, chosen: first, rejected: second } : { prompt, chosen: second, rejected: first };
  }
}

export interface SyntheticFiles {
  /** The model to start from. */
  readonly model: string;
  /** Rows { messages } with the writer's replies, for supervised runs. */
  readonly replies: string;
  /** Rows { prompt, chosen, rejected }; those of the test are labeled by worth alone. */
  readonly pairs: string;
  readonly testPairs: string;
  /** Rows { question }, for runs that sample their own replies. No prompt has a reply. */
  readonly prompts: string;
}

export interface SyntheticSizes {
  /** A preset gets fresh weights and a tokenizer of these words; the folder of a chat model is taken as it is. */
  readonly model: { readonly preset: PresetName } | { readonly path: string };
  readonly numReplies: number;
  readonly numPairs: number;
  readonly numTestPairs: number;
  /** How much the replies of a pair differ in worth, at least. Default: at all. */
  readonly minGap?: number;
  readonly numPrompts: number;
  /** The system message. Default: none, and so what the template says without one. */
  readonly system?: string;
}

/** Writes the data and the model of a seed into a folder. */
export function writeSynthetic(folder: string, seed: number, sizes: SyntheticSizes): SyntheticFiles {
  mkdirSync(folder, { recursive: true });
  const write = (name: string, count: number, row: (rowSeed: number) => object): string => {
    const path = join(folder, `${name}.jsonl`);
    const rows = Array.from({ length: count }, (_, i) => JSON.stringify(row(deriveSeed(seed, name, i))));
    writeFileSync(path, `${rows.join("\n")}\n`);
    return path;
  };
  const { model, minGap = 0, system } = sizes;
  const asked = (prompt: string) => [
    ...(system === undefined ? [] : [{ role: "system", content: system }]),
    { role: "user", content: prompt },
  ];
  const pair = (rowSeed: number, isSure: boolean) => {
    const { prompt, ...replies } = drawPair(rowSeed, { isSure, minGap });
    return { prompt: system === undefined ? prompt : asked(prompt), ...replies };
  };
  return {
    model: "path" in model ? model.path : writePreset(join(folder, "model"), model.preset, seed),
    replies: write("replies", sizes.numReplies, (rowSeed) => {
      const prompt = drawPrompt(rowSeed);
      const reply = drawReply(prompt, rowSeed);
      return { messages: [...asked(prompt), { role: "assistant", content: reply }] };
    }),
    pairs: write("pairs", sizes.numPairs, (rowSeed) => pair(rowSeed, false)),
    testPairs: write("test-pairs", sizes.numTestPairs, (rowSeed) => pair(rowSeed, true)),
    prompts: write("prompts", sizes.numPrompts, (rowSeed) => {
      const prompt = drawPrompt(rowSeed);
      return { question: system === undefined ? prompt : asked(prompt), answer: "" };
    }),
  };
}

function writePreset(folder: string, preset: PresetName, seed: number): string {
  const words = ["name", ...Object.keys(counts), ...Object.keys(things), ":", ...Object.values(things).flat(), END];
  const model = createPreset(preset, 48, seed);
  saveCausalLm(model, folder, { files: wordTokenizerFiles({ words, endWords: [END] }) });
  model.dispose();
  return folder;
}

function readPrompt(prompt: string): { readonly kind: Kind; readonly count: number } {
  const [, count, kind] = prompt.split(" ");
  return { kind: kind as Kind, count: counts[count as Count] };
}
