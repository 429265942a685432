/** Programs of a model in a run that scores code: only the right one earns something, whatever the others do to what runs them. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { javascriptAttacks, pythonAttacks } from "../rewards/code-attacks.ts";
import { skipNote, skipReason } from "../sandbox/python-availability.ts";
import { inFolder } from "./lake-run.ts";
import { writeOneWordModel } from "./one-word-model.ts";
import { trainSmall } from "./small-run.ts";

/** The square of the last is no double: its neighbors are 9007199515875288 and ...290. */
const squares = { 7: "49", 8: "64", 94906267: "9007199515875289" };
const cases = Object.entries(squares).map(([x, square]) => `{"arguments": [${x}], "expected": ${square}}`);
const calls = `{"function": "f", "cases": [${cases.join(", ")}]}`;

interface Programs {
  readonly language: string;
  readonly right: string;
  /** Right but for the last digit of a large number. */
  readonly rounded: string;
  readonly attacks: readonly string[];
  readonly assertions: readonly string[];
}

/** One step in which the model says all of the programs to tests of two kinds, several times and at once. */
async function expectRightToEarn({ language, right, rounded, attacks, assertions }: Programs): Promise<void> {
  const programs = [right, rounded, ...attacks];
  const truths = [calls, JSON.stringify({ language, test_list: assertions })];
  const { metrics, trajectories } = await inFolder((root) =>
    trainSmall({
      model: { path: writeOneWordModel(join(root, "model"), programs) },
      data: { type: "rows", rows: truths.map((answer) => ({ prompt: "so", answer })) },
      rewards: {
        default: { type: "code", languages: [language], testTimeoutMs: 1000, totalTimeoutMs: 2000, numWorkers: 2 },
      },
      rollout: { groupsPerStep: 2, groupSize: 32, contextLength: 16, sampling: { maxTokens: 1, temperature: 10 } },
      training: { optimizer: { lr: 1e-3 } },
      loop: { type: "sync", steps: 1 },
    }),
  );
  expect(metrics[0]!["rollout/failed_share"]).toBe(0);
  const said = trajectories.map(({ turns }) => turns[0]!.replyText);
  for (const program of programs) expect(said).toContain(program);
  for (const { turns, reward } of trajectories) {
    const { replyText } = turns[0]!;
    expect(reward.total, replyText).toBe(replyText === right ? 1 : 0);
  }
}

test.skipIf(skipReason !== null)(
  `python that replaces, forges, exits, floods and hangs earns nothing, and costs the right program nothing${skipNote}`,
  () => {
    const names = [
      ...["an object equal to everything", "sends frames of its own", "kills everything"],
      ...["everything is caught", "a memory bomb", "a deep list"],
    ];
    const replaced = ["exec does nothing", "compile gives nothing", "builtins.compile compiles pass"];
    const forged = ["the JSON encoder says passed", "reports on all descriptors", "a huge integer"];
    return expectRightToEarn({
      language: "python",
      right: "def f(x): return x * x",
      rounded: "def f(x): return int(float(x * x))",
      attacks: [
        joined(pythonAttacks, replaced),
        joined(pythonAttacks, forged),
        ...names.map((name) => pythonAttacks[name]!),
      ],
      assertions: Object.entries(squares).map(([x, square]) => `assert f(${x}) == ${square}`),
    });
  },
);

test("javascript that replaces, forges, exits, floods and hangs earns nothing, and costs the right program nothing", () => {
  const names = [
    ...["an object with valueOf", "reports by itself", "a memory bomb"],
    ...["throws a deep object", "returns a deep list", "returns NaN"],
  ];
  const replaced = ["push is patched", "the array iterator is patched", "JSON answers passed"];
  return expectRightToEarn({
    language: "javascript",
    right: "function f(x) { if (x < 1e6) return x * x; return BigInt(x) * BigInt(x); }",
    rounded: "function f(x) { if (x < 1e6) return x * x; return BigInt(x * x); }",
    attacks: [joined(javascriptAttacks, replaced), ...names.map((name) => javascriptAttacks[name]!)],
    assertions: Object.entries(squares).map(([x, square]) => `assert.equal(String(f(${x})), "${square}")`),
  });
});

/** Attacks one after the other, in one program. */
const joined = (attacks: Readonly<Record<string, string>>, names: readonly string[]) =>
  names.map((name) => attacks[name]!).join("\n");
