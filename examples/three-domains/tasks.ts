/**
 * Tasks of two domains beside word problems: small functions with tests, and requests with rules that a program checks and a subject
 * that a judge is asked about.
 *
 * Held-out functions have other names and numbers, held-out requests other subjects and lengths, than those of training.
 */

type Part = "training" | "held-out";

/** What a function does, and what it should give: calls with their results. */
interface FunctionKind {
  readonly does: string;
  readonly parameters: string;
  readonly cases: (
    k: number,
  ) => readonly (readonly [args: readonly (number | string | readonly number[])[], expected: unknown])[];
}

const ofTwo = (compute: (a: number, b: number) => number) => () =>
  (
    [
      [3, 8],
      [15, 4],
      [0, 7],
    ] as const
  ).map(([a, b]) => [[a, b], compute(a, b)] as const);
const ofOne = (compute: (n: number, k: number) => unknown) => (k: number) =>
  [6, 11, -2].map((n) => [[n], compute(n, k)] as const);
const ofText = (compute: (text: string) => unknown) => () =>
  ["river", "a", "Blue Sky"].map((text) => [[text], compute(text)] as const);
const ofList = (compute: (list: readonly number[]) => unknown) => () =>
  [[4, 9, 2], [7], [1, 5, 5, 12]].map((list) => [[list], compute(list)] as const);

const functionKinds: readonly FunctionKind[] = [
  { does: "returns a plus b", parameters: "a, b", cases: ofTwo((a, b) => a + b) },
  { does: "returns a minus b", parameters: "a, b", cases: ofTwo((a, b) => a - b) },
  { does: "returns a times b", parameters: "a, b", cases: ofTwo((a, b) => a * b) },
  { does: "returns the larger of a and b", parameters: "a, b", cases: ofTwo((a, b) => Math.max(a, b)) },
  { does: "returns n plus {k}", parameters: "n", cases: ofOne((n, k) => n + k) },
  { does: "returns n times {k}", parameters: "n", cases: ofOne((n, k) => n * k) },
  { does: "returns the square of n", parameters: "n", cases: ofOne((n) => n * n) },
  { does: "tells whether n is greater than {k}", parameters: "n", cases: ofOne((n, k) => n > k) },
  { does: "returns the length of text", parameters: "text", cases: ofText((text) => text.length) },
  { does: "returns text in upper case", parameters: "text", cases: ofText((text) => text.toUpperCase()) },
  { does: "returns the first item of list", parameters: "list", cases: ofList((list) => list[0]) },
  { does: "returns the last item of list", parameters: "list", cases: ofList((list) => list.at(-1)) },
];

const functionNames = {
  training: "run solve answer work step make find value apply result output calculate".split(" "),
  "held-out": "compute handle process getValue produce determine".split(" "),
};

/** Functions to write in JavaScript, as rows of data. */
export function functionTasks(part: Part, count: number) {
  const names = functionNames[part];
  return Array.from({ length: count }, (_, i) => {
    const { does, parameters, cases } = functionKinds[i % functionKinds.length]!;
    const turn = Math.floor(i / functionKinds.length);
    const name = names[turn % names.length]!;
    const k = (part === "training" ? 2 : 3) + 2 * (turn % 9);
    const calls = cases(k).map(([args, expected]) => ({ arguments: args, expected }));
    return {
      question: `Write a JavaScript function ${name}(${parameters}) that ${does.replace("{k}", String(k))}. Reply with the code only.`,
      truth: JSON.stringify({ language: "javascript", function: name, cases: calls }),
    };
  });
}

/** What requests are about: the words that a text is told apart by, each one token of many models. */
const subjects = {
  training:
    "rain, bread, the moon, winter, the sea, a library, music, a forest, fire, a school, fish, gold, a castle, a market, birds, salt, glass, books".split(
      ", ",
    ),
  "held-out": "a river, a bridge, a hospital, a museum, rice, cats, money, sleep".split(", "),
};

const MIN_WORDS = 8;

interface Rule {
  readonly says: string;
  readonly id: string;
  readonly values: (n: number) => Values;
}

const atLeast: Rule = {
  says: `Use at least ${MIN_WORDS} words.`,
  id: "length_constraints:number_words",
  values: () => ({ relation: "at least", num_words: MIN_WORDS }),
};

const rules: readonly Rule[] = [
  {
    says: "Use at most {n} words.",
    id: "length_constraints:number_words",
    values: (n) => ({ relation: "less than", num_words: n + 1 }),
  },
  { says: "Use no commas.", id: "punctuation:no_comma", values: () => ({}) },
  { says: "Write in lower case only.", id: "change_case:english_lowercase", values: () => ({}) },
  { says: "Put your whole reply in double quotation marks.", id: "startend:quotation", values: () => ({}) },
  {
    says: "End with the words: That is all.",
    id: "startend:end_checker",
    values: () => ({ end_phrase: "That is all." }),
  },
];

type Values = Record<string, string | number>;

/** Requests for a few words about a subject with two rules each: the truth holds the rules as IFEval has them, and the subject. */
export function ruledTasks(part: Part, count: number) {
  return Array.from({ length: count }, (_, i) => {
    const n = (part === "training" ? 12 : 15) + 6 * (i % 3);
    const first = i % rules.length;
    const second = (first + 1 + (Math.floor(i / rules.length) % (rules.length - 1))) % rules.length;
    const chosen = [atLeast, rules[first]!, rules[second]!];
    const subject = subjects[part][Math.floor(i / 20) % subjects[part].length]!;
    return {
      question: [`Tell me about ${subject}.`, ...chosen.map(({ says }) => says.replace("{n}", String(n)))].join(" "),
      truth: {
        instruction_id_list: chosen.map(({ id }) => id),
        kwargs: chosen.map(({ values }) => values(n)),
        subject: subject.replace(/^(a|the) /, ""),
      },
    };
  });
}

/** What a judge that need not be large is asked about such a reply: the subject, which `nothing` is where it has none. */
export const subjectQuestion = {
  question: "You name the subject of a text with one word.",
  examples: [
    { reply: "A dog is a loyal animal that barks and likes to run after balls.", answer: "dogs" },
    { reply: "that is all.", answer: "nothing" },
    { reply: "milk is curdled and ripens in a cellar for months", answer: "cheese" },
    { reply: "Hello, I am happy to help you.", answer: "nothing" },
    { reply: "it tells the time with two hands and ticks on the wall", answer: "clock" },
    { reply: "the queen and the knights stand on black and white squares", answer: "chess" },
    { reply: "we put on boots and climb to the snowy top", answer: "mountain" },
  ],
};
