/**
 * The math reward on whole data sets, where ../shared holds them: reference solutions as if a model had written them, and the
 * answers of other rows, which must not pass.
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { compareAnswers } from "../../src/rewards/math/compare-answers.ts";
import { extractAnswer } from "../../src/rewards/math/extract-answer.ts";
import { mathReward } from "../../src/rewards/math/math-reward.ts";

interface Row {
  readonly solution: string;
  readonly answer: string;
}

const OPTIONS = { roundedDigits: 5, percentIsFraction: false };
const folder = fileURLToPath(new URL("../../../shared/data/", import.meta.url));

function readRows(name: string, toRow: (row: Record<string, string>) => Row): Row[] {
  return readFileSync(`${folder}${name}`, "utf8")
    .trim()
    .split("\n")
    .map((line) => toRow(JSON.parse(line)));
}

const fromGsm8k = ({ answer = "" }: Record<string, string>): Row => ({
  solution: answer,
  answer: answer.split("####")[1] ?? "",
});
const fromMath = ({ solution = "", answer = "" }: Record<string, string>): Row => ({ solution, answer });
const fromDeepMath = ({ ground_truth: answer = "" }: Record<string, string>): Row => ({
  solution: `\\boxed{${answer}}`,
  answer,
});

const SETS = [
  { name: "gsm8k/test.jsonl", toRow: fromGsm8k, numRows: 1_319, share: 0.995 },
  { name: "gsm8k/train.jsonl", toRow: fromGsm8k, numRows: 7_473, share: 0.995 },
  { name: "math/math500.jsonl", toRow: fromMath, numRows: 500, share: 0.97 },
  { name: "math/deepmath-5k.jsonl", toRow: fromDeepMath, numRows: 4_994, share: 0.995 },
];

/** Answers that only differ in what surrounds a number or a name. A second opinion: it shares nothing with the code under test. */
function bareText(answer: string): string {
  const plain = answer
    .toLowerCase()
    .replace(/\\[dt]frac/g, "\\frac")
    .replace(/\\(?:text|mbox|mathrm)\s*\{([^{}]*)\}/g, (_, words: string) =>
      /^\s*[a-z. ]{3,}$/.test(words) ? "" : words,
    )
    .replace(/\^\\circ|\\%|\\\$|\\left|\\right|\\!|\\,|[\s{}$.]/g, "")
    .replace(/(\d),(?=\d{3}(?!\d))/g, "$1")
    .replace(/^(?:[a-z](?:_\d)?|\\[a-z]+|[a-z]\([a-z0-9]\))=/, "")
    .replace(/^\\\{?(-?\d+)\\?\}?$/, "$1");
  return { yes: "true", no: "false", four: "4" }[plain] ?? plain;
}

for (const { name, toRow, numRows, share } of SETS) {
  const isMissing = existsSync(`${folder}${name}`) ? false : `../shared/data/${name} is not there`;

  test.skipIf(isMissing)(`${name}: reference solutions pass`, () => {
    const rows = readRows(name, toRow);
    expect(rows).toHaveLength(numRows);
    const failed = rows.filter(({ solution, answer }) => {
      const found = extractAnswer(solution);
      return found === null || compareAnswers(answer, found.text, OPTIONS).kind !== "equal";
    });
    expect(1 - failed.length / rows.length, failed.map(({ answer }) => answer).join("\n")).toBeGreaterThanOrEqual(
      share,
    );
  });

  test.skipIf(isMissing)(`${name}: an answer with one digit changed is another answer`, () => {
    const answers = new Set(readRows(name, toRow).map(({ answer }) => answer.trim()));
    const passed = [...answers].flatMap((truth) =>
      [...truth.matchAll(/\d/g)]
        .map(({ 0: digit, index }) => `${truth.slice(0, index)}${(Number(digit) + 1) % 10}${truth.slice(index + 1)}`)
        .filter((other) => compareAnswers(truth, other, OPTIONS).kind === "equal")
        .map((other) => `${truth}  ==  ${other}`),
    );
    expect(passed).toEqual([]);
  });

  test.skipIf(isMissing)(`${name}: of the answers of other rows, only those pass that say the same`, () => {
    const answers = readRows(name, toRow).map(({ answer }) => answer.trim());
    const comparisons = [1, 7, 97].flatMap((distance) =>
      answers
        .map((truth, i) => ({ truth, other: answers[(i + distance) % answers.length]! }))
        .filter(({ truth, other }) => truth !== other)
        .map(({ truth, other }) => ({ truth, other, ...compareAnswers(truth, other, OPTIONS) })),
    );
    expect(comparisons.length).toBeGreaterThan(2 * numRows);
    const equal = comparisons.filter(({ kind }) => kind === "equal");
    expect(equal.filter(({ truth, other }) => bareText(truth) !== bareText(other))).toEqual([]);
    expect(equal.length / comparisons.length).toBeLessThan(0.02);
    const symbolic = comparisons.filter((comparison) => comparison.kind === "open" && comparison.pairs.length > 0);
    expect(symbolic.length / comparisons.length).toBeLessThan(0.01);
  });
}

const math500 = "math/math500.jsonl";
test.skipIf(existsSync(`${folder}${math500}`) ? false : `../shared/data/${math500} is not there`)(
  "the whole reward agrees, asked at once for all of MATH-500",
  async () => {
    const reward = await mathReward.build(mathReward.options.parse({}));
    const { signal } = new AbortController();
    const rows = readRows(math500, fromMath);
    const scores = await Promise.all(
      rows.map(({ solution, answer }, i) => {
        const prompt = { id: `math500/${i}`, domain: "math", seed: i, messages: [], truth: answer, extra: {} };
        return reward.score({ prompt, reply: solution, messages: [], numReplyTokens: 0, isTruncated: false }, signal);
      }),
    );
    await reward.close?.();
    expect(scores.reduce((sum, { value }) => sum + value, 0) / rows.length).toBeGreaterThanOrEqual(0.97);
  },
);
