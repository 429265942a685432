/** Texts that a model could write to hold up whoever reads them: long runs of what readers look for. */

/** Everything that some reader takes for a sign, and a few letters. */
export const UNITS: readonly string[] = [
  ..." \t\n\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~!aZ09é漢\u00a0",
  ...[
    "answer",
    "answer ",
    "answer is ",
    "answer to ",
    "answer:",
    "final answer ",
    "the answer is $",
    "option A ",
    "(A) ",
  ],
  ...[
    "<answer>",
    "</answer>",
    "<answer></answer>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_call>{",
  ],
  ...["\\boxed{", "\\boxed ", "\\fbox{", "####", "#### ", "#### 1\n", "$1$ ", "$$", "\\(", "\\[", "\\frac{", "\\text{"],
  ...[
    "\\sqrt[",
    "\\left(",
    "\\begin{pmatrix}",
    "\\{",
    "^{",
    "_{",
    "10^",
    "9!",
    "1,",
    "1,234",
    "1/",
    "1.",
    "1+",
    "-1",
    "=1",
  ],
  ...[
    "```",
    "```\n",
    "```json\n",
    "```python\n",
    "~~~\n",
    "~~~ ",
    "* ",
    "- ",
    "**",
    "** ",
    "***",
    "******",
    "<<",
    ">>",
  ],
  ...[
    " or ",
    " and ",
    ", ",
    ". ",
    "Mr. ",
    "p.s. ",
    "A.",
    "[a]",
    '{"a":',
    '"a",',
    "[[",
    "\\",
    "\\\\",
    "search[",
    "click[",
    "]]",
  ],
];

const OPENINGS: readonly string[] = [
  ...[
    "",
    "answer",
    "the answer is",
    "the answer is $1$",
    "answer:",
    "<answer>",
    "\\boxed{",
    "#### ",
    "x\n",
    "option A",
    "$1$",
  ],
  ...["```json\n", "```python\n", "~~~", "<tool_call>", "search[", "click[", "[", '["', '{"a":"', '"', "***", "1"],
];
const ENDINGS: readonly string[] = ["", "x", "\n", "}", "]", "</answer>", "\n```", '"', "=", "$"];

/** A text of about so many characters. */
export type HostileText = (numChars: number) => string;

/** One unit over and over. */
export function repeated(unit: string, opening = "", ending = ""): HostileText {
  return (numChars) => opening + unit.repeat(Math.ceil(numChars / unit.length)) + ending;
}

/** The text of this number: an opening, one to three units in turn, an ending. */
export function hostileText(number: number): { readonly name: string; readonly text: HostileText } {
  const draw = (options: readonly string[], salt: number) => options[hash(number * 31 + salt) % options.length]!;
  const opening = draw(OPENINGS, 1);
  const ending = draw(ENDINGS, 2);
  const unit = Array.from({ length: 1 + (hash(number) % 3) }, (_, i) => draw(UNITS, 3 + i)).join("");
  return { name: JSON.stringify([opening, unit, ending]), text: repeated(unit, opening, ending) };
}

function hash(value: number): number {
  let mixed = Math.imul(value ^ 0x9e3779b9, 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
