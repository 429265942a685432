/**
 * Jinja as chat templates use it.
 *
 * In: a template and its variables. Out: the text that Python's jinja2 gives with the settings of transformers.
 * Built on `@huggingface/jinja`, with what Python does differently: what an iteration wrote before `{% break %}` or `{% continue %}` is kept;
 * undefined values are empty text where text is asked for, and no list where a list is; lists and objects are written as Python writes them and
 * objects may have numbers as keys; what is added to a text that is called `safe` is escaped; `raw`, `format`, `min` and `max` exist. `strftime_now` exists only when the caller gives a time, so a prompt
 * never changes with the day by itself.
 */

import { Environment, Interpreter, parse, tokenize } from "@huggingface/jinja";
import { pythonText } from "./python-text.ts";
import { strftime } from "./strftime.ts";

/** A parsed template. Throws the library's error when the source is not Jinja. */
export class JinjaTemplate {
  readonly source: string;
  readonly #program: JinjaNode;

  constructor(source: string) {
    this.source = source;
    this.#program = parse(tokenize(withoutRaw(source), { trim_blocks: true, lstrip_blocks: true }));
  }

  /**
   * @param variables plain JSON values by name
   * @param now what `strftime_now` tells, in UTC
   */
  render(variables: Readonly<Record<string, unknown>>, now?: Date): string {
    const environment: JinjaEnvironment = new Environment();
    for (const [name, value] of Object.entries({ ...GLOBALS, ...variables })) environment.set(name, value);
    if (now !== undefined) environment.set("strftime_now", (format: string) => strftime(now, format));
    environment.tests.set("iterable", ({ type }) => ITERABLE.has(type));
    return String(new LoopInterpreter(environment).run(this.#program).value);
  }
}

/** The error that a template raises with `raise_exception`: a message for the author of the conversation. */
export class TemplateRefusal extends Error {}

const GLOBALS = {
  true: true,
  True: true,
  false: false,
  False: false,
  none: null,
  None: null,
  range,
  raise_exception(message: string): never {
    throw new TemplateRefusal(message);
  },
};

/** Text that is not looked into, as an expression that gives it. */
function withoutRaw(source: string): string {
  return source.replace(
    /\{%(-?)\s*raw\s*(-?)%\}([\s\S]*?)\{%(-?)\s*endraw\s*(-?)%\}/g,
    (_, before: string, open: string, text: string, close: string, after: string) => {
      const start = open === "-" ? text.trimStart() : text;
      return `{{${before} ${JSON.stringify(close === "-" ? start.trimEnd() : start)} ${after}}}`;
    },
  );
}

/** Python's `range`. */
function range(startOrStop: number, stop?: number, step = 1): number[] {
  const [start, end] = stop === undefined ? [0, startOrStop] : [startOrStop, stop];
  return Array.from({ length: Math.max(0, Math.ceil((end - start) / step)) }, (_, index) => start + index * step);
}

/** The parts of the library that are used here; the library's own types do not resolve under NodeNext. */
interface JinjaNode {
  readonly type: string;
}
interface JinjaEnvironment {
  readonly variables: Map<string, unknown>;
  readonly tests: Map<string, (operand: JinjaValue) => boolean>;
  set(name: string, value: unknown): unknown;
}
interface JinjaValue {
  readonly type: string;
  readonly value: unknown;
}
/** A filter is a name, or a call of one. */
interface JinjaFilter extends JinjaNode {
  readonly value?: string;
  readonly callee?: { readonly value: string };
  readonly args?: readonly JinjaNode[];
}
interface JinjaBinary extends JinjaNode {
  readonly operator: { readonly value: string };
  readonly left: JinjaNode;
  readonly right: JinjaNode;
}
interface JinjaObject extends JinjaNode {
  readonly value: ReadonlyMap<JinjaNode, JinjaNode>;
}
interface JinjaMember extends JinjaNode {
  readonly object: JinjaNode;
  readonly property: JinjaNode & { readonly value?: unknown };
  readonly computed: boolean;
}
/** A node that is evaluated already. */
interface JinjaEvaluated extends JinjaNode {
  readonly value: JinjaValue;
}
interface JinjaCall extends JinjaNode {
  readonly callee: JinjaNode;
  readonly args: readonly JinjaNode[];
}
/** What is gone through may be filtered by an `if`. */
interface JinjaLoop extends JinjaNode {
  readonly iterable: JinjaNode & { readonly lhs?: JinjaNode };
  /** A name, or several of them. */
  readonly loopvar: JinjaNode & { readonly value: string | readonly { readonly value: string }[] };
  readonly body: readonly JinjaNode[];
}
interface JinjaInterpreter {
  run(program: JinjaNode): { readonly value: unknown };
  evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): JinjaValue;
  applyFilter(operand: JinjaValue, filter: JinjaFilter, environment: JinjaEnvironment): JinjaValue;
  evaluateBinaryExpression(node: JinjaBinary, environment: JinjaEnvironment): JinjaValue;
  evaluateFor(node: JinjaLoop, environment: JinjaEnvironment): JinjaValue;
  evaluateBlock(statements: readonly JinjaNode[], environment: JinjaEnvironment): JinjaValue;
  evaluateMemberExpression(node: JinjaMember, environment: JinjaEnvironment): JinjaValue;
  evaluateCallExpression(node: JinjaCall, environment: JinjaEnvironment): JinjaValue;
}
const BaseInterpreter: new (environment: JinjaEnvironment) => JinjaInterpreter = Interpreter;

/**
 * Leaves a loop by skipping what remains of it. The library throws instead, and loses what the iteration wrote.
 * All iterations of a loop share one environment, and each has its own `loop` value in it. One thing still differs from
 * Python: the `else` of a loop in which every iteration jumps is not rendered.
 */
class LoopInterpreter extends BaseInterpreter {
  readonly #loopedOver = new WeakSet<JinjaNode>();
  /** Objects whose keys are numbers in the template, and texts here. */
  readonly #numbered = new WeakSet<JinjaValue>();
  /** Texts that went through the filter `safe`, and what they were added to. */
  readonly #safe = new WeakSet<JinjaValue>();
  /** The variables that belong to each iteration, by the body of the loop. */
  readonly #bodies = new Map<readonly JinjaNode[], ReadonlySet<string>>();
  #jump: { kind: "Break" | "Continue"; environment: JinjaEnvironment; loop: unknown } | undefined;

  override evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): JinjaValue {
    if (node?.type === "Break" || node?.type === "Continue") {
      this.#jump ??= { kind: node.type, environment, loop: environment.variables.get("loop") };
    }
    if (this.#isSkipping(environment)) return super.evaluate(undefined, environment);
    if (isEvaluated(node)) return node.value;
    const value = isObject(node) ? this.#object(node, environment) : super.evaluate(node, environment);
    return node !== undefined && this.#loopedOver.has(node) ? itemsOf(value) : value;
  }

  /** Lists, objects, true and false are written as Python writes them, and what an iteration sets is gone in the next. */
  override evaluateBlock(statements: readonly JinjaNode[], environment: JinjaEnvironment): JinjaValue {
    const own = this.#bodies.get(statements);
    if (own !== undefined)
      for (const name of [...environment.variables.keys()]) if (!own.has(name)) environment.variables.delete(name);
    const texts = statements.map((statement) => {
      const value = this.evaluate(statement, environment);
      if (value.type === "NullValue" || value.type === "UndefinedValue") return "";
      const isOwn = COLLECTIONS.has(value.type) || value.type === "BooleanValue";
      return isOwn ? pythonText(plain(value)) : String(value);
    });
    return runtimeValue(texts.join(""));
  }

  /** A part of something undefined is an error, as in Python, and not undefined itself. */
  override evaluateMemberExpression(node: JinjaMember, environment: JinjaEnvironment): JinjaValue {
    const object = this.evaluate(node.object, environment);
    if (object.type === "UndefinedValue") {
      const part = node.computed ? "a part" : `"${node.property.value}"`;
      throw new Error(`${part} of something undefined is asked for`);
    }
    if (this.#numbered.has(object) && node.computed) {
      const key = String(this.evaluate(node.property, environment).value);
      return (object.value as Map<string, JinjaValue>).get(key) ?? runtimeValue(undefined);
    }
    const evaluated: JinjaEvaluated = { type: "Evaluated", value: object };
    return super.evaluateMemberExpression({ ...node, object: evaluated }, environment);
  }

  /** `"{} and {}".format(a, b)`, which the library does not have. */
  override evaluateCallExpression(node: JinjaCall, environment: JinjaEnvironment): JinjaValue {
    const { callee, args } = node;
    if (!isFormat(callee)) return super.evaluateCallExpression(node, environment);
    const text = this.evaluate(callee.object, environment);
    if (text.type !== "StringValue") return super.evaluateCallExpression(node, environment);
    const given = args.map((argument) => pythonText(plain(this.evaluate(argument, environment))));
    let next = 0;
    const filled = String(text.value).replace(/\{(\d*)\}/g, (_, place: string) => given[place ? +place : next++] ?? "");
    return runtimeValue(filled);
  }

  #object(node: JinjaObject, environment: JinjaEnvironment): JinjaValue {
    const entries = [...node.value].map(([key, value]) => ({ key: this.evaluate(key, environment), value }));
    if (entries.every(({ key }) => key.type === "StringValue")) return super.evaluate(node, environment);
    const named = entries.map(
      ({ key, value }) => [{ type: "StringLiteral", value: String(key.value) }, value] as const,
    );
    const object = super.evaluate({ ...node, value: new Map(named) } as JinjaObject, environment);
    this.#numbered.add(object);
    return object;
  }

  override evaluateFor(node: JinjaLoop, environment: JinjaEnvironment): JinjaValue {
    this.#loopedOver.add(node.iterable.type === "SelectExpression" ? (node.iterable.lhs ?? node) : node.iterable);
    const { value } = node.loopvar;
    const names = typeof value === "string" ? [value] : value.map((one) => one.value);
    this.#bodies.set(node.body, new Set([...names, "loop"]));
    return super.evaluateFor(node, environment);
  }

  override applyFilter(operand: JinjaValue, filter: JinjaFilter, environment: JinjaEnvironment): JinjaValue {
    const name = filter.value ?? filter.callee?.value ?? "";
    if (operand.type === "StringValue" && name === "safe") return this.#asSafe(String(operand.value));
    if (operand.type === "UndefinedValue" && TEXT_FILTERS.has(name))
      return super.applyFilter(runtimeValue(""), filter, environment);
    const isNothing = operand.type === "UndefinedValue" || operand.type === "NullValue";
    if (isNothing && LIST_FILTERS.has(name)) return runtimeValue([]);
    if (operand.type === "ObjectValue" && name === "string") return runtimeValue(pythonText(plain(operand)));
    if (name === "dictsort" && this.#numbered.has(operand)) return numberedPairs(operand);
    if (Array.isArray(operand.value)) {
      if (operand.value.length === 0 && (name === "first" || name === "last")) return runtimeValue(undefined);
      if (name === "min" || name === "max") return runtimeValue(Math[name](...(plain(operand) as number[])));
    }
    if (operand.type === "StringValue" && name === "format") {
      const given = (filter.args ?? []).map((argument) => pythonText(plain(this.evaluate(argument, environment))));
      return runtimeValue(String(operand.value).replace(/%s/g, () => given.shift() ?? ""));
    }
    return super.applyFilter(operand, filter, environment);
  }

  /** `~` joins texts, of which some may be undefined; `+` with a text that is called safe makes the other one so. */
  override evaluateBinaryExpression(node: JinjaBinary, environment: JinjaEnvironment): JinjaValue {
    const { value: operator } = node.operator;
    if (operator !== "~" && operator !== "+") return super.evaluateBinaryExpression(node, environment);
    const sides = [node.left, node.right].map((side) => this.evaluate(side, environment));
    if (operator === "+" && sides.some((side) => this.#safe.has(side))) {
      const isText = ({ type }: JinjaValue) => type === "StringValue";
      const texts = sides.map((side) =>
        this.#safe.has(side) || !isText(side) ? String(side) : escapeHtml(String(side)),
      );
      return this.#asSafe(texts.join(""));
    }
    if (operator === "+") {
      const [left, right] = sides.map((value): JinjaEvaluated => ({ type: "Evaluated", value }));
      return super.evaluateBinaryExpression({ ...node, left: left!, right: right! }, environment);
    }
    return runtimeValue(sides.map((side) => (side.type === "UndefinedValue" ? "" : pythonText(plain(side)))).join(""));
  }

  #asSafe(text: string): JinjaValue {
    const value = runtimeValue(text);
    this.#safe.add(value);
    return value;
  }

  #isSkipping(environment: JinjaEnvironment): boolean {
    if (this.#jump === undefined) return false;
    const { kind, loop } = this.#jump;
    const isInLoop = environment === this.#jump.environment;
    const isSkipping = isInLoop && (kind === "Break" || environment.variables.get("loop") === loop);
    if (!isSkipping) this.#jump = undefined;
    return isSkipping;
  }
}

/** As Python's markupsafe writes it. */
function escapeHtml(text: string): string {
  const entities: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "'": "&#39;",
    '"': "&#34;",
  };
  return text.replace(/[&<>'"]/g, (character) => entities[character]!);
}

/** Filters that take any value as text. */
const TEXT_FILTERS: ReadonlySet<string> = new Set([
  "trim",
  "string",
  "lower",
  "upper",
  "capitalize",
  "title",
  "replace",
]);

/** Filters that give nothing of nothing. */
const LIST_FILTERS: ReadonlySet<string> = new Set(["select", "reject", "selectattr", "rejectattr", "map"]);

const COLLECTIONS: ReadonlySet<string> = new Set(["ArrayValue", "TupleValue", "ObjectValue"]);

const ITERABLE: ReadonlySet<string> = new Set([...COLLECTIONS, "StringValue"]);

function isObject(node: JinjaNode | undefined): node is JinjaObject {
  return node?.type === "ObjectLiteral";
}

function isEvaluated(node: JinjaNode | undefined): node is JinjaEvaluated {
  return node?.type === "Evaluated";
}

function isFormat(node: JinjaNode): node is JinjaMember {
  const { property, computed } = node as Partial<JinjaMember>;
  return node.type === "MemberExpression" && computed === false && property?.value === "format";
}

/** What a loop goes through: the characters of a text, and pairs as lists, which the library takes apart. */
function itemsOf(value: JinjaValue): JinjaValue {
  if (value.type === "StringValue") return runtimeValue([...String(value.value)]);
  const isPairs = Array.isArray(value.value) && value.value.some((item: JinjaValue) => item.type === "TupleValue");
  return isPairs ? runtimeValue(plain(value)) : value;
}

/** The entries of an object whose keys are numbers, by key. */
function numberedPairs(object: JinjaValue): JinjaValue {
  const entries = Object.entries(plain(object) as Record<string, unknown>);
  return runtimeValue(entries.map(([key, value]) => [Number(key), value]).sort(([a], [b]) => Number(a) - Number(b)));
}

/** The library makes its values itself: this one is made by setting a variable. */
function runtimeValue(value: unknown): JinjaValue {
  const environment: JinjaEnvironment = new Environment();
  return environment.set("value", value) as JinjaValue;
}

/** A value of the library as plain data. */
function plain({ value }: JinjaValue): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (!(value instanceof Map)) return value;
  return Object.fromEntries([...(value as Map<string, JinjaValue>)].map(([key, inner]) => [key, plain(inner)]));
}
