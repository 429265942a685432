/** Learning from teachers in runs from a run file: what they change, and that nothing else does. */

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import { serve } from "../../src/cli/serve.ts";
import { startThreadedEngine } from "../../src/generation/local/threaded-engine.ts";
import { startFakeSglangTeacher, startFakeVllmTeacher } from "../contracts/fake-servers.ts";
import { editWeights } from "./edit-weights.ts";
import { inFolder, type LakeChanges, trainLake } from "./lake-run.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-distillation-"));
/** Where the student starts, and another model that speaks the same words. */
let student: string;
let teacher: string;

beforeAll(async () => {
  const alone = { loop: { type: "sync", steps: 0 } } as const;
  student = join((await trainLake(root, alone)).folder, "model");
  teacher = join((await trainLake(root, { ...alone, seed: 7 })).folder, "model");
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

type Distillation = NonNullable<LakeChanges["distillation"]>;

const from = (path: string) => ({ teachers: { default: { type: "folder", path } as const } });

/** Steps of the student with a teacher. */
function taught(folder: string, distillation: Distillation | null, changes: LakeChanges = {}) {
  return trainLake(folder, {
    model: { path: student },
    loop: { type: "sync", steps: 2 },
    checkpoint: { every: 1 },
    ...(distillation && { distillation }),
    ...changes,
  });
}

test("a teacher whose word counts nothing changes nothing, to the bit, and is measured", () =>
  inFolder(async (folder) => {
    const alone = await taught(folder, null);
    const watched = await taught(folder, { ...from(teacher), coefficient: 0 });
    expect(watched.weights(2)).toBe(alone.weights(2));
    expect(watched.train.get(1)!["distillation/reverse_kl"]).toBeGreaterThan(0.001);
    expect(alone.train.get(1)).not.toHaveProperty("distillation/reverse_kl");
  }));

describe.each(["advantage", "full"] as const)("form %s", (form) => {
  test("a teacher that is the student's own start says nothing at first, and alone it teaches nothing", () =>
    inFolder(async (folder) => {
      const run = await taught(
        folder,
        { ...from(student), form, rewards: false },
        { loop: { type: "sync", steps: 1 } },
      );
      expect(run.train.get(1)!["distillation/reverse_kl"]).toBe(0);
      expect(run.weights(1)).toBe(run.weights(0));
    }));

  test("a student comes closer to its teacher without any reward", () =>
    inFolder(async (folder) => {
      const run = await taught(
        folder,
        { ...from(teacher), form, rewards: false },
        { loop: { type: "sync", steps: 6 }, rollout: { groupsPerStep: 8 }, training: { optimizer: { lr: 1e-2 } } },
      );
      const gap = (step: number) => run.train.get(step)!["distillation/reverse_kl"]!;
      expect(gap(6)).toBeLessThan(0.6 * gap(1));
    }));

  test("two ranks learn what one does", () =>
    inFolder(async (folder) => {
      // An epsilon above the rounding of gradients: AdamW divides by their size.
      const training = { optimizer: { lr: 1e-3, eps: 1e-3 } };
      const options = { ...from(teacher), form } as const;
      const alone = (await taught(folder, options, { training })).train.get(2)!;
      const ranked = (await taught(folder, options, { training: { ...training, ranks: 2 } })).train.get(2)!;
      for (const name of ["distillation/reverse_kl", "train/loss", "train/grad_norm"])
        expect(ranked[name]).toBeCloseTo(alone[name]!, 5);
    }));
});

test("a teacher whose vocabulary is padded says what it would say without the padding, in both forms, and so does a reference", () =>
  inFolder(async (folder) => {
    const padded = join(folder, "padded");
    padVocabulary(student, padded, 32);
    const once = { loop: { type: "sync", steps: 1 } } as const;
    for (const form of ["advantage", "full"] as const) {
      const run = await taught(folder, { ...from(padded), form, rewards: false }, once);
      expect(run.train.get(1)!["distillation/reverse_kl"]).toBe(0);
    }
    const algorithm = { type: "grpo", klReward: { coefficient: 0.1 } } as const;
    const held = await taught(folder, null, { ...once, algorithm, reference: padded });
    expect(held.train.get(1)!["score/reference_kl"]).toBe(0);
  }));

test("each domain has its own teacher, and one without any learns from rewards alone", () =>
  inFolder(async (folder) => {
    const lake = { type: "frozen-lake", prompt: "compact", maxTurns: 3, answerTags: null } as const;
    const parts = ["lake", "pond"].map((env) => ({ ratio: 1, source: { type: "env", env } as const }));
    const run = await taught(
      folder,
      { teachers: { lake: { type: "folder", path: teacher } } },
      { envs: { lake, pond: lake }, data: { type: "mix", parts }, loop: { type: "sync", steps: 1 } },
    );
    const both = await taught(
      folder,
      { teachers: { lake: { type: "folder", path: teacher }, pond: { type: "folder", path: student } } },
      { envs: { lake, pond: lake }, data: { type: "mix", parts }, loop: { type: "sync", steps: 1 } },
    );
    // The second teacher is the student itself: it lowers the mean, and changes no advantage.
    const gap = (of: typeof run) => of.train.get(1)!["distillation/reverse_kl"]!;
    expect(gap(both)).toBeGreaterThan(0);
    expect(gap(both)).toBeLessThan(0.75 * gap(run));
    expect(both.train.get(1)!["score/advantage_std"]).toBeCloseTo(run.train.get(1)!["score/advantage_std"]!, 5);
  }));

test("a teacher behind a server teaches what the same teacher in a folder does, in the words of reroll, vLLM and SGLang", () =>
  inFolder(async (folder) => {
    const engine = await startThreadedEngine({ folder: teacher, tokenizerFolder: teacher, numThreads: 1 });
    const tokenizer = await loadTokenizer(teacher);
    const scorer = { score: engine.scorePrompt, textOf: (id: number) => tokenizer.decode([id]) };
    // The engine is closed with our own server, which therefore comes last.
    const servers = {
      vllm: await startFakeVllmTeacher(scorer),
      sglang: await startFakeSglangTeacher(scorer),
      reroll: await serve({ engine, tokenizer, modelName: "teacher", port: 0, print: () => {} }),
    } as const;
    try {
      const once = { checkpoint: { every: 0 }, loop: { type: "sync", steps: 1 } } as const;
      const near = await taught(folder, from(teacher), once);
      for (const kind of ["vllm", "sglang", "reroll"] as const) {
        const { url } = servers[kind];
        const far = await taught(folder, { teachers: { default: { type: "server", kind, url } } }, once);
        for (const name of ["distillation/reverse_kl", "train/loss", "score/advantage_std"])
          expect(far.train.get(1)![name], kind).toBeCloseTo(near.train.get(1)![name]!, 5);
      }
    } finally {
      for (const server of Object.values(servers)) await server.close();
    }
  }));

test("a server whose tokens are spelled otherwise is refused before anything starts", () =>
  inFolder(async (folder) => {
    const server = await startFakeVllmTeacher({
      score: async (promptIds) => new Float32Array(promptIds.length).fill(-1),
      textOf: (id) => `other${id}`,
    });
    try {
      const run = taught(folder, { teachers: { default: { type: "server", kind: "vllm", url: server.url } } });
      await expect(run).rejects.toThrow(
        /^distillation\.teachers\.default has another vocabulary than the model: at http.* token \d+ is "other\d+"/,
      );
    } finally {
      await server.close();
    }
  }));

describe("a teacher that cannot teach is refused before anything starts", () => {
  test.each([
    [
      "of another vocabulary",
      { teachers: { default: { type: "folder", path: "VOCABULARY" } } },
      /distillation\.teachers\.default\.path has another vocabulary than the model: token \d+ is .* there and .* in the model/,
    ],
    [
      "that is not there",
      { teachers: { default: { type: "folder", path: "nowhere" } } },
      /distillation\.teachers\.default\.path names "nowhere"/,
    ],
    [
      "of no domain",
      { teachers: { laek: { type: "self", context: "x" } } },
      /has "laek", and the run has no such domain: it has lake\. Did you mean/,
    ],
    ["that is none", { teachers: {} }, /distillation\.teachers is empty/],
    [
      "without a context of its own",
      { teachers: { default: { type: "self" } } },
      /distillation\.teachers\.default\.context/,
    ],
    [
      "behind a server, asked for whole distributions",
      { teachers: { default: { type: "server", kind: "vllm", url: "http://127.0.0.1:1" } }, form: "full" },
      /distillation\.form is "full", and distillation\.teachers\.default is a server/,
    ],
    [
      "whom nobody listens to",
      { teachers: { default: { type: "self", context: "x" } }, rewards: false, coefficient: 0 },
      /nothing would be learned from/,
    ],
  ] as const)("%s", (_, distillation, message) =>
    inFolder(async (folder) => {
      const text = JSON.stringify(distillation);
      const other = text.includes("VOCABULARY")
        ? (
            await trainLake(folder, {
              envs: { pole: { type: "cart-pole-text" } },
              loop: { type: "sync", steps: 0 },
            })
          ).folder
        : "";
      const options = JSON.parse(text.replace("VOCABULARY", join(other, "model"))) as Distillation;
      await expect(taught(folder, options)).rejects.toThrow(message);
    }),
  );
});

/** The same model with rows of zeros behind its vocabulary, whose scores are those of tokens that are neither likely nor unlikely. */
function padVocabulary(from: string, to: string, numRows: number): void {
  cpSync(from, to, { recursive: true });
  editWeights(to, (weights) => {
    for (const [name, { shape, bytes }] of weights) {
      if (!/embed_tokens|lm_head/.test(name)) continue;
      const [size, width] = shape as [number, number];
      const padding = Buffer.alloc(4 * numRows * width);
      weights.set(name, { shape: [size + numRows, width], bytes: Buffer.concat([bytes, padding]) });
    }
  });
  const config = JSON.parse(readFileSync(join(to, "config.json"), "utf8")) as { vocab_size: number };
  writeFileSync(join(to, "config.json"), JSON.stringify({ ...config, vocab_size: config.vocab_size + numRows }));
}
