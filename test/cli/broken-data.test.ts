/**
 * What is wrong with rows, reward models and teachers is told in one line, with code 2, before a run folder is made. Nothing here
 * trains: each case fails while the run is prepared.
 */
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { wordTokenizerFiles } from "../../src/chat/tokenizer/word-tokenizer.ts";
import { runCli } from "../../src/cli/run-cli.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-broken-data-"));
const other = join(folder, "other");
const damaged = join(folder, "damaged");
const runs = join(folder, "runs");
beforeAll(async () => {
  cpSync("fixtures/hf-tiny/llama", other, { recursive: true });
  for (const [name, bytes] of wordTokenizerFiles({ words: ["other"], endWords: [] }))
    writeFileSync(join(other, name), bytes);
  cpSync(other, damaged, { recursive: true });
  const weights = join(damaged, "model.safetensors");
  writeFileSync(weights, readFileSync(weights).subarray(0, 5000));
  writeFileSync(join(folder, "broken.jsonl"), '{"prompt":"a","chosen":"b","rejected":"c"}\n{"prompt":"a","chosen":\n');
  writeFileSync(join(folder, "number.jsonl"), "7\n");
  writeFileSync(join(folder, "empty.jsonl"), "");
  writeFileSync(join(folder, "damaged.parquet"), "PAR1nonsense");
  // The first command loads libtorch and everything that names options.
  await import("../../src/tuning/prepare-tuning.ts");
  await import("../../src/run/prepare-run.ts");
});
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => vi.restoreAllMocks());

type Keys = Readonly<Record<string, unknown>>;
interface Broken {
  readonly name: string;
  readonly run: Keys;
  readonly says: string;
}

const rows = (...list: readonly unknown[]) => ({ type: "rows", rows: list });
const file = (name: string) => ({ type: name.endsWith("parquet") ? "parquet" : "jsonl", path: join(folder, name) });
const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });
const pair = { prompt: "hi", chosen: "yes", rejected: "no" };

function tuning(objective: Keys, data: Keys, more: Keys = {}): Keys {
  return {
    kind: "tuning",
    device: "cpu",
    model: { preset: "nano" },
    contextLength: 64,
    ...{ objective, data, training: { optimizer: { lr: 1e-3 } }, ...more },
  };
}

const pairs = (...list: readonly unknown[]) => tuning({ type: "dpo" }, rows(pair, ...list));
const rating = (...list: readonly unknown[]) => tuning({ type: "reward-model", loss: "regression" }, rows(...list));
const feedback = (completions: unknown) => pairs({ instruction: "Say hi", completions });
const dialogs = (chosen: string, rejected: string) => pairs({ chosen, rejected });
const judged = (path: string, more: Keys = {}) => lake({ ...more, rewards: { lake: { type: "reward-model", path } } });
const taught = (teacher: Keys, more: Keys = {}) => lake({ distillation: { teachers: { default: teacher }, ...more } });

function lake(more: Keys): Keys {
  return {
    device: "cpu",
    model: { preset: "nano" },
    envs: { lake: { type: "frozen-lake", prompt: "compact", answerTags: null } },
    rollout: { groupsPerStep: 2, groupSize: 2, contextLength: 64, sampling: { maxTokens: 2 } },
    training: { optimizer: { lr: 1e-3 } },
    ...more,
  };
}

const brokenPairs: readonly Broken[] = [
  ["equal replies", pairs({ ...pair, rejected: "yes" }), "data row 2 has equal replies in chosen and rejected"],
  ["no rejected reply", pairs({ prompt: "a", chosen: "b" }), "data row 2 has nothing in rejected"],
  ["no chosen reply", pairs({ prompt: "a", rejected: "b" }), "data row 2 has nothing in chosen"],
  ["no prompt", pairs({ chosen: "b", rejected: "c" }), "data row 2 has nothing in prompt"],
  ["an empty reply", pairs({ ...pair, chosen: "" }), "data row 2 has an empty reply in chosen"],
  ["an empty prompt", pairs({ ...pair, prompt: "" }), "data row 2 has an empty prompt"],
  ["a number as reply", pairs({ ...pair, chosen: 3 }), "data row 2 has no list of messages in chosen: got 3"],
  ["null as reply", pairs({ ...pair, chosen: null }), "data row 2 has nothing in chosen"],
  ["a list as row", pairs(["a", "b"]), "data.rows.1 is not valid"],
  ["a text as row", pairs("hello"), "data.rows.1 is not valid"],
  ["no rows", tuning({ type: "dpo" }, rows()), "data.rows is not valid: got []"],
  [
    "conversations with nothing in common",
    pairs({ chosen: [user("a"), assistant("b")], rejected: [user("z"), assistant("c")] }),
    "share no message before a reply",
  ],
  [
    "a conversation that the user ends",
    pairs({ chosen: [user("a"), assistant("b"), user("?")], rejected: [user("a"), assistant("c")] }),
    'must end with a message of the assistant in chosen: got one of the role "user"',
  ],
  [
    "messages without roles",
    pairs({ chosen: [{ content: "a" }], rejected: [{ content: "b" }] }),
    "has the role nothing",
  ],
  ["an unknown role", pairs({ ...pair, prompt: [{ role: "wizard", content: "a" }] }), 'has the role "wizard"'],
  ["an empty conversation", pairs({ ...pair, chosen: [] }), "has no list of messages in chosen: got []"],
  ["HH: equal replies", dialogs("\n\nHuman: a\n\nAssistant: b", "\n\nHuman: a\n\nAssistant: b"), "has equal replies"],
  ["HH: the person ends it", dialogs("\n\nHuman: a\n\nAssistant: b\n\nHuman: c", "\n\nHuman: a"), "must end with"],
  ["HH: another prompt", dialogs("\n\nHuman: a\n\nAssistant: b", "\n\nHuman: z\n\nAssistant: c"), "share no message"],
  ["HH: an empty reply", dialogs("\n\nHuman: a\n\nAssistant:", "\n\nHuman: a\n\nAssistant: c"), "has an empty reply"],
  ["UltraFeedback: one completion", feedback([{ response: "a", overall_score: 1 }]), "has no two completions"],
  ["UltraFeedback: none", feedback([]), "has no two completions with different scores"],
  ["UltraFeedback: no list", feedback("hi"), "has no two completions with different scores"],
  [
    "UltraFeedback: equal scores",
    feedback(["a", "b"].map((response) => ({ response, overall_score: 5 }))),
    "has no two completions with different scores",
  ],
  ["UltraFeedback: no score", feedback([{ response: "a" }]), "must have a response and a number in overall_score"],
  ["UltraFeedback: a score in words", feedback([{ response: "a", overall_score: "N/A" }]), 'overall_score":"N/A"'],
  ["UltraFeedback: no response", feedback([{ overall_score: 3 }]), "must have a response"],
  ["a line that is cut off", tuning({ type: "dpo" }, file("broken.jsonl")), "broken.jsonl line 2 is not JSON"],
  ["a line that is no object", tuning({ type: "dpo" }, file("number.jsonl")), "line 1 is not an object: got 7"],
  ["an empty file", tuning({ type: "dpo" }, file("empty.jsonl")), "data has nothing to learn from"],
  ["a damaged Parquet file", tuning({ type: "dpo" }, file("damaged.parquet")), "cannot be read as Parquet"],
  ["no such file", tuning({ type: "dpo" }, file("gone.jsonl")), "gone.jsonl does not exist"],
  ["rows that are all too long", tuning({ type: "dpo" }, rows({ ...pair, prompt: "x".repeat(99) })), "longer than"],
  [
    "validation rows with equal replies",
    tuning({ type: "dpo" }, rows(pair), { validation: { data: rows({ ...pair, rejected: "yes" }) } }),
    "validation.data row 1 has equal replies",
  ],
  [
    "a metric that is misspelled",
    tuning({ type: "dpo" }, rows(pair), { validation: { data: rows(pair), metric: "preference/accurracy" } }),
    "Did you mean preference/accuracy?",
  ],
].map(toBroken);

const brokenObjectives: readonly Broken[] = [
  [
    "KTO: no label",
    tuning({ type: "kto" }, rows({ prompt: "a", completion: "b" })),
    "must have true or false in label",
  ],
  ["KTO: one prompt", tuning({ type: "kto" }, rows({ prompt: "a", completion: "b", label: true })), "two different"],
  ["a score in words", rating({ prompt: "a", completion: "b", score: "8" }), 'must have a number in score: got "8"'],
  ["pairs where scores are learned", rating(pair), "data row 1 has nothing in completion"],
  ["no margin", tuning({ type: "reward-model", useMargins: true }, rows(pair)), "data row 1 has no margin"],
  [
    "a margin for the other side",
    tuning({ type: "reward-model", useMargins: true }, rows({ ...pair, margin: -1 })),
    "has a margin of -1, which says that the chosen reply is the worse one",
  ],
  [
    "margins where scores are learned",
    tuning({ type: "reward-model", loss: "regression", useMargins: true }, rows(pair)),
    'objective.useMargins is true, and objective.loss is "regression"',
  ],
  [
    "a reference of other words",
    tuning({ type: "dpo" }, rows(pair), { reference: other }),
    "the vocabulary of the model",
  ],
  [
    "a model that is cut off",
    tuning({ type: "dpo" }, rows(pair), { model: { path: damaged } }),
    "model.path cannot be loaded. model.safetensors is not a valid safetensors file",
  ],
  [
    "a teacher of other words, for given replies",
    tuning({ type: "distillation", teacher: other }, rows({ prompt: "a", completion: "b" })),
    "objective.teacher has another vocabulary than the model",
  ],
].map(toBroken);

const brokenModels: readonly Broken[] = [
  ["no reward model", judged("nowhere"), 'rewards.lake.path names "nowhere"'],
  ["a language model as reward model", judged(other), "which holds a language model and no reward model"],
  ["a reward model that is cut off", judged(damaged), "rewards.lake.path cannot be loaded"],
  [
    "a critic of other words",
    lake({ algorithm: { type: "ppo" }, critic: { path: other } }),
    "critic.path has another vocabulary than the model",
  ],
  ["a teacher of other words", taught({ type: "folder", path: other }), "default.path has another vocabulary"],
  ["a teacher that is cut off", taught({ type: "folder", path: damaged }), "default.path cannot be loaded"],
  ["no teacher", lake({ distillation: { teachers: {} } }), "distillation.teachers is empty"],
  ["a teacher without a context", taught({ type: "self" }), "distillation.teachers.default.context is missing"],
  ["a server that says too little", taught({ type: "server", kind: "llama-cpp", url: "http://localhost:1" }), "kind"],
  [
    "a server asked for whole distributions",
    taught({ type: "server", kind: "vllm", url: "http://localhost:1" }, { form: "full" }),
    'distillation.form is "full", and distillation.teachers.default is a server',
  ],
].map(toBroken);

function toBroken([name, run, says]: readonly (string | Keys)[]): Broken {
  return { name: String(name), run: run as Keys, says: String(says) };
}

test.each([...brokenPairs, ...brokenObjectives, ...brokenModels])(
  "a run with $name ends with code 2 and leaves nothing",
  async ({ run, says }) => {
    const path = join(folder, "run.json");
    writeFileSync(path, JSON.stringify({ ...run, tracking: { folder: runs, tensorboard: false } }));
    const lines: string[] = [];
    vi.spyOn(console, "error").mockImplementation((line: string) => void lines.push(line));
    vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(line));
    expect(await runCli(["train", path])).toBe(2);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^error: [^\n]*$/);
    expect(lines[0]).toContain(says);
    expect(existsSync(runs)).toBe(false);
  },
);
