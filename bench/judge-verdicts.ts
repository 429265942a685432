/**
 * How good the verdicts of a served judge are that the recipe three-domains asks: texts by hand whose subject is known.
 *
 * Usage: reroll serve models/SmolLM2-135M-Instruct --name judge --context 1024, then npm run bench -- judge-verdicts [address]
 * Each text is asked about with its own subject and with another one, and empty texts with each subject; once as the recipe asks, and once
 * for yes or no. Makes the table and bench/results/judge-verdicts.json.
 */
import { subjectQuestion } from "../examples/three-domains/tasks.ts";
import { buildReward } from "../src/rewards/catalog.ts";
import { EMPTY_TEXTS, TEXTS_BY_SUBJECT } from "./judge-texts.ts";
import { printTable, writeResult } from "./report.ts";
import { meanOf } from "./seeded-runs.ts";

const judge = {
  type: "judge",
  mode: "word",
  baseUrl: process.argv[2] ?? "http://127.0.0.1:8000/v1",
  model: "judge",
} as const;
const subjects = Object.keys(TEXTS_BY_SUBJECT);
const kinds = [
  { kind: "names its subject", isOnTopic: true, textsFor: (i: number) => [TEXTS_BY_SUBJECT[subjects[i]!]![0]] },
  { kind: "does not name it", isOnTopic: true, textsFor: (i: number) => [TEXTS_BY_SUBJECT[subjects[i]!]![1]] },
  { kind: "has another subject", isOnTopic: false, textsFor: (i: number) => TEXTS_BY_SUBJECT[otherThan(i)]! },
  { kind: "has none", isOnTopic: false, textsFor: () => EMPTY_TEXTS },
];
/** The same examples, each answered with yes where it has a subject. */
const yesOrNo = (subject: string) => ({
  question: "You decide whether a text is about a subject. Answer with Yes or No only.",
  examples: subjectQuestion.examples.map(({ reply, answer }) => ({
    reply: `Subject: ${answer === "nothing" ? "tea" : answer}\nText: ${reply}`,
    answer: answer === "nothing" ? "No" : "Yes",
  })),
  ...{ answers: ["Yes"], contrary: ["No"] },
  show: (text: string) => `Subject: ${subject}\nText: ${text}`,
});
const naming = (subject: string) => ({ ...subjectQuestion, answers: [subject], show: (text: string) => text });

const named = await verdictsOn(naming);
const yesNo = await verdictsOn(yesOrNo);
printTable(
  "Verdicts on texts: how many are right, above or below 0.5, and their mean",
  ["text", "texts", "right, naming the subject", "mean", "right, yes or no", "mean"],
  named.map(({ kind, texts, right, mean }, i) => [
    ...[kind, String(texts), String(right), mean.toFixed(2)],
    ...[String(yesNo[i]!.right), yesNo[i]!.mean.toFixed(2)],
  ]),
);
writeResult("judge-verdicts", { named, yesNo });

async function verdictsOn(questionOn: typeof naming | typeof yesOrNo) {
  const rewards = await Promise.all(
    subjects.map(async (subject) => {
      const { show, ...question } = questionOn(subject);
      return { show, reward: await buildReward({ ...judge, ...question }) };
    }),
  );
  const verdictOn = async (i: number, text: string): Promise<number> => {
    const { show, reward } = rewards[i]!;
    const prompt = { id: subjects[i]!, messages: [], truth: null, domain: "general", seed: 0, extra: {} };
    const input = { prompt, reply: show(text), messages: [], numReplyTokens: 1, isTruncated: false };
    return (await reward.score(input, new AbortController().signal)).value;
  };
  const rows: { kind: string; texts: number; right: number; mean: number; values: number[] }[] = [];
  for (const { kind, isOnTopic, textsFor } of kinds) {
    const values = await Promise.all(subjects.flatMap((_, i) => textsFor(i).map((text) => verdictOn(i, text))));
    const right = values.filter((value) => value > 0.5 === isOnTopic).length;
    rows.push({ kind, texts: values.length, right, mean: meanOf(values), values });
  }
  return rows;
}

function otherThan(i: number): string {
  return subjects[(i + 3) % subjects.length]!;
}
