/**
 * Reads the text of an answer: values with units, lists of solutions, sets, points, intervals, unions, equations and
 * inequalities, matrices, choices, words.
 *
 * Never fails: mathematics that cannot be read is `opaque`, text is `words`.
 */
import type { Answer, RelationOperator, TupleAnswer, ValueAnswer } from "./answer.ts";
import { apply, type Expression, expandSigns, integer } from "./expression.ts";
import { readTokens, type Token, tokenText } from "./latex-tokens.ts";
import { parseExpression } from "./parse-expression.ts";
import { DEGREE, DOLLAR, readUnit, type Unit } from "./units.ts";

export function parseAnswer(source: string): Answer {
  return readAnswer(readTokens(source));
}

/** The same for answers that were written from the same tokens. */
export function answerText(source: string): string {
  return tokenText(readTokens(source));
}

const OPENING = new Set(["(", "[", "{", "\\{"]);
const CLOSING = new Set([")", "]", "}", "\\}"]);
const OPERATORS = new Set<string>(["=", "<", ">", "leq", "geq", "neq", "in"] satisfies RelationOperator[]);
const ALL_REALS: TupleAnswer = {
  kind: "tuple",
  open: "(",
  close: ")",
  items: [
    value(apply("negate", { kind: "constant", name: "infinity" })),
    value({ kind: "constant", name: "infinity" }),
  ],
};
const MATRICES = new Set(["begin pmatrix", "begin bmatrix", "begin matrix", "begin array", "begin smallmatrix"]);
const NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split(" ");
const MULTIPLES: Readonly<Record<string, number>> = {
  dozen: 12,
  hundred: 100,
  thousand: 1_000,
  million: 1_000_000,
  billion: 1_000_000_000,
};
const SAME_WORDS: Readonly<Record<string, string>> = {
  yes: "true",
  no: "false",
  "all reals": "all real numbers",
  none: "no solution",
};

function readAnswer(tokens: readonly Token[]): Answer {
  const first = tokens[0];
  if (first === undefined) return { kind: "words", text: "" };
  if (isSymbol(first, "=") || isSymbol(first, ":")) return readAnswer(tokens.slice(1));
  if (first.kind === "command" && first.text.startsWith("begin ")) return readMatrix(tokens);
  const items = splitTop(tokens, isSeparator).parts.filter((item) => item.length > 0);
  if (items.length > 1) return { kind: "list", items: items.map(readAnswer).flatMap(flattenList) };
  return readItem(items[0] ?? []);
}

function readItem(tokens: readonly Token[]): Answer {
  if (tokens.length === 0) return { kind: "words", text: "" };
  return readRelation(tokens) ?? readUnion(tokens) ?? readBrackets(tokens) ?? readAtom(tokens);
}

function readRelation(tokens: readonly Token[]): Answer | null {
  const { parts, separators } = splitTop(tokens, (token) => token.kind !== "text" && OPERATORS.has(token.text));
  if (separators.length === 0) return null;
  return {
    kind: "relation",
    operators: separators.map(({ text }) => text as RelationOperator),
    sides: parts.map(readAnswer),
  };
}

function readUnion(tokens: readonly Token[]): Answer | null {
  const { parts } = splitTop(tokens, (token) => token.kind === "command" && token.text === "cup");
  return parts.length === 1 ? null : { kind: "union", parts: parts.map(readAnswer) };
}

/** A set, a point or an interval; null for brackets that only group. */
function readBrackets(tokens: readonly Token[]): Answer | null {
  const [open, close] = [tokens[0]?.text, tokens.at(-1)?.text];
  const angle = tokens[0]?.kind === "command" && open === "langle" && close === "rangle";
  if (!angle && !spansBrackets(tokens)) return ratio(tokens);
  const inside = tokens.slice(1, -1);
  const parts = splitTop(inside, (token) => isSymbol(token, ",") || isSymbol(token, ";")).parts;
  if (open === "\\{")
    return { kind: "set", items: inside.length === 0 ? [] : parts.map(readAnswer).flatMap(flattenList) };
  if (open === "{") return readAnswer(inside);
  if (parts.length < 2) return null;
  const items = parts.map(readAnswer);
  return { kind: "tuple", open: open === "[" ? "[" : "(", close: close === "]" ? "]" : ")", items };
}

function ratio(tokens: readonly Token[]): Answer | null {
  const { parts } = splitTop(tokens, (token) => isSymbol(token, ":"));
  return parts.length < 2 ? null : { kind: "tuple", open: ":", close: ":", items: parts.map(readAnswer) };
}

function readAtom(tokens: readonly Token[]): Answer {
  const letters = tokens.filter((token) => !isSymbol(token, "(") && !isSymbol(token, ")"));
  const letter = letters.length === 1 && tokens.length <= 3 && letters[0]!.kind === "letter" ? letters[0]!.text : "";
  if (/^[A-J]$/.test(letter)) return { kind: "choice", letter };
  if (letter === "\\mathbb R") return ALL_REALS;
  if (tokens.length === 1 && tokens[0]!.text === "emptyset") return { kind: "set", items: [] };
  return readValue(tokens) ?? readWords(tokens) ?? { kind: "opaque", latex: tokenText(tokens) };
}

function readWords(tokens: readonly Token[]): Answer | null {
  if (!tokens.some(({ kind }) => kind === "text")) return null;
  const written = tokens
    .map(({ text }) => text)
    .join(" ")
    .toLowerCase()
    .replace(/^(?:the|a n|an|a) /, "");
  const text = SAME_WORDS[written] ?? written;
  if (text === "all real numbers") return ALL_REALS;
  const number = NUMBER_WORDS.indexOf(text);
  return number === -1 ? { kind: "words", text } : value(integer(number));
}

/** A value with its currency, unit, label or percent sign; both values where it has a plus-minus sign. */
function readValue(tokens: readonly Token[]): Answer | null {
  const { rest, unit, label } = takeUnit(tokens);
  const multiple = label === null ? undefined : MULTIPLES[label];
  const parsed = parseExpression(rest);
  if (parsed === null) return null;
  const { expression, sign } = takeSign(parsed);
  const scaled = multiple === undefined ? expression : apply("multiple", expression, integer(multiple));
  const isPercent = sign === "percent" || label === "percent";
  const about = {
    latex: tokenText(rest),
    unit: sign === "degrees" ? DEGREE : unit,
    label: multiple === undefined && !isPercent ? label : null,
    isPercent,
  };
  const values = expandSigns(scaled).map((one) => ({ ...value(one), ...about }));
  return values.length === 1 ? values[0]! : { kind: "list", items: values };
}

function takeSign(expression: Expression): { expression: Expression; sign: string | null } {
  if (expression.kind !== "apply") return { expression, sign: null };
  const [argument] = expression.args;
  if (expression.name === "degrees" || expression.name === "percent")
    return { expression: argument!, sign: expression.name };
  if (expression.name !== "negate") return { expression, sign: null };
  const inner = takeSign(argument!);
  return { expression: apply("negate", inner.expression), sign: inner.sign };
}

interface WithoutUnit {
  readonly rest: readonly Token[];
  readonly unit: Unit | null;
  readonly label: string | null;
}

function takeUnit(tokens: readonly Token[]): WithoutUnit {
  const currency = tokens.findIndex(
    (token, i) => i < 2 && token.kind === "symbol" && CURRENCIES[token.text] !== undefined,
  );
  const rest = currency === -1 ? tokens : tokens.filter((_, i) => i !== currency);
  const currencyUnit = currency === -1 ? null : CURRENCIES[tokens[currency]!.text]!;
  const last = rest.findIndex(({ kind }) => kind === "text");
  if (last < 1) return { rest, unit: currencyUnit, label: null };
  const text = rest[last]!.text;
  const after = tokenText(rest.slice(last + 1));
  const power = after === "" ? "1" : /^\^ { (\d) }$/.exec(after)?.[1];
  if (power === undefined) return { rest, unit: null, label: null };
  const unit = readUnit(text, Number(power));
  // "an ellipse" is no value of a times n.
  if (unit === null && rest.slice(0, last).every(({ kind }) => kind === "letter"))
    return { rest, unit: null, label: null };
  return {
    rest: rest.slice(0, last),
    unit: unit ?? currencyUnit,
    label: unit === null ? text.replace(/s$/, "") : null,
  };
}

const CURRENCIES: Readonly<Record<string, Unit>> = {
  "\\$": DOLLAR,
  "€": { dimension: "euro", factor: 1 },
  "£": { dimension: "sterling", factor: 1 },
};

function readMatrix(tokens: readonly Token[]): Answer {
  const opaque: Answer = { kind: "opaque", latex: tokenText(tokens) };
  const [begin, end] = [tokens[0]!.text, tokens.at(-1)!.text];
  if (!MATRICES.has(begin) || end !== begin.replace("begin", "end")) return opaque;
  const start = begin === "begin array" ? tokens.findIndex((token) => isSymbol(token, "}")) + 1 : 1;
  const rows = splitTop(tokens.slice(start, -1), (token) => isSymbol(token, "\\\\")).parts.filter(
    (row) => row.length > 0,
  );
  const cells = rows.map((row) => splitTop(row, (token) => isSymbol(token, "&")).parts.map(readAtom));
  const isWhole = cells.every(
    (row) => row.length === cells[0]!.length && row.every(({ kind }) => kind === "value" || kind === "choice"),
  );
  if (!isWhole || cells.length === 0) return opaque;
  const asValue = (cell: Answer) =>
    cell.kind === "choice" ? value({ kind: "variable", name: cell.letter }) : (cell as ValueAnswer);
  return { kind: "matrix", rows: cells.map((row) => row.map(asValue)) };
}

/** A value that was not written as such. */
function value(expression: Expression): ValueAnswer {
  return { kind: "value", expression, latex: "", unit: null, label: null, isPercent: false };
}

function flattenList(answer: Answer): readonly Answer[] {
  return answer.kind === "list" ? answer.items : [answer];
}

function isSymbol(token: Token | undefined, text: string): boolean {
  return token?.kind === "symbol" && token.text === text;
}

function isSeparator(token: Token): boolean {
  if (token.kind === "text") return token.text === "or" || token.text === "and";
  return isSymbol(token, ",") || isSymbol(token, ";");
}

/** Splits where no bracket is open. */
function splitTop(
  tokens: readonly Token[],
  isBetween: (token: Token) => boolean,
): { parts: Token[][]; separators: Token[] } {
  const parts: Token[][] = [[]];
  const separators: Token[] = [];
  let depth = 0;
  for (const token of tokens) {
    depth += depthChange(token);
    if (depth === 0 && isBetween(token)) {
      separators.push(token);
      parts.push([]);
    } else parts.at(-1)!.push(token);
  }
  return { parts, separators };
}

/** Whether the first bracket closes with the last token. */
function spansBrackets(tokens: readonly Token[]): boolean {
  if (tokens.length < 2 || depthChange(tokens[0]!) !== 1) return false;
  let depth = 0;
  return (
    tokens.every((token, i) => {
      depth += depthChange(token);
      return depth > 0 || i === tokens.length - 1;
    }) && depth === 0
  );
}

function depthChange({ kind, text }: Token): number {
  if (kind === "command")
    return text.startsWith("begin ") || text === "langle" ? 1 : text.startsWith("end ") || text === "rangle" ? -1 : 0;
  return kind !== "symbol" ? 0 : OPENING.has(text) ? 1 : CLOSING.has(text) ? -1 : 0;
}
