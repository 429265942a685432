/**
 * The letter that a reply to a multiple-choice question settles on.
 *
 * Comes in: the text after the thoughts, and the letters that are offered. Goes out: one of them, or undefined when the
 * reply names none or more than one. Places are tried in this order, and in each the last one counts: `\boxed{B}`,
 * "the answer is (B)", then the last line if it is only a letter ("**B**", "B) 1/3") or has just one in brackets.
 */
export function extractChoice(text: string, letters: string): string | undefined {
  const letter = `[${letters}${letters.toLowerCase()}]`;
  return (fromBox(text, letters) ?? fromStatement(text, letter) ?? fromLastLine(text, letter, letters))?.toUpperCase();
}

/** The content of the last box, read without its decoration: `\boxed{\text{(B)}}`. */
function fromBox(text: string, letters: string): string | undefined {
  const content = text.split(/\\boxed\s*\{/).at(-1);
  if (content === undefined || content === text) return undefined;
  const bare = content.replace(/\\(?:text|mathrm|mathbf|textbf)\s*\{/g, "").trimStart();
  return new RegExp(
    `^[\\s($*]*([${letters}${letters.toLowerCase()}])(?![\\p{L}\\p{N}])(?!\\s*(?:,|or\\b|and\\b))`,
    "u",
  ).exec(bare)?.[1];
}

/** "answer is B", "**Answer:** (B)", "option B is correct". "A or B" is no answer. */
function fromStatement(written: string, letter: string): string | undefined {
  // A long run of spaces and stars would be divided in all ways among the parts of the patterns.
  const text = written.replace(/[\s*_]+/g, (run) => (run.includes("\n") ? "\n" : " "));
  const named = `[\\s$("'\\[]*(?<letter>${letter})(?![\\p{L}\\p{N}'’])`;
  const says = `(?:answer|option|choice)(?:\\s+to\\s[^\\n.:]{1,60}?)?\\s?(?:is|would be|should be|:|=)[\\s:]*(?:option\\s|choice\\s)?${named}`;
  const praises = `(?:answer|option|choice)\\s${named}[)\\s]*\\sis\\s(?:the\\s)?(?:correct|right|best)`;
  const statements = [says, praises].flatMap((pattern) => [...text.matchAll(new RegExp(pattern, "giu"))]);
  const last = statements.toSorted((a, b) => a.index - b.index).at(-1);
  const found = last?.groups?.letter;
  if (last === undefined || found === undefined) return undefined;
  const rest = text.slice(last.index + last[0].length, last.index + last[0].length + 16);
  // "the answer is a small number": a lower-case "a" before another word is an article.
  const isArticle = found === "a" && /^\s+\p{L}/u.test(rest);
  const isUndecided = new RegExp(`^[\\s)*\\]]*(?:,|/|or|and)\\s*\\(?${letter}(?![\\p{L}\\p{N}])`, "iu").test(rest);
  return isArticle || isUndecided ? undefined : found;
}

function fromLastLine(text: string, letter: string, letters: string): string | undefined {
  const line = text.trimEnd().split("\n").at(-1)?.trim() ?? "";
  const alone = new RegExp(`^[*_("'\\[]*(${letter})[*_)"'\\].:]*$`, "u").exec(line)?.[1];
  if (alone !== undefined) return alone;
  const option = new RegExp(`^[*_("'\\[]*([${letters}])[*_]*[).:][*_]*\\s`, "u").exec(line)?.[1];
  const inBrackets = [...line.matchAll(new RegExp(`\\(([${letters}])\\)`, "g"))].map((match) => match[1]);
  const [first, second] = new Set(option === undefined ? inBrackets : [option, ...inBrackets]);
  return second === undefined ? first : undefined;
}
