/**
 * Jinja as chat templates use it.
 *
 * In: a template and its variables. Out: the text that Python's jinja2 gives with the settings of transformers.
 * Built on `@huggingface/jinja`, with a few differences: what an iteration wrote before `{% break %}` or `{% continue %}` is kept;
 * undefined values are empty text where text is asked for, objects are written as Python writes them, and `raw` and `format` exist. `strftime_now`
 * exists only when the caller gives a time, so a prompt never changes with the day by itself.
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
  readonly variables: ReadonlyMap<string, unknown>;
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
/** What is gone through may be filtered by an `if`. */
interface JinjaLoop extends JinjaNode {
  readonly iterable: JinjaNode & { readonly lhs?: JinjaNode };
}
interface JinjaInterpreter {
  run(program: JinjaNode): { readonly value: unknown };
  evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): JinjaValue;
  applyFilter(operand: JinjaValue, filter: JinjaFilter, environment: JinjaEnvironment): JinjaValue;
  evaluateBinaryExpression(node: JinjaBinary, environment: JinjaEnvironment): JinjaValue;
  evaluateFor(node: JinjaLoop, environment: JinjaEnvironment): JinjaValue;
}
const BaseInterpreter: new (environment: JinjaEnvironment) => JinjaInterpreter = Interpreter;

/**
 * Leaves a loop by skipping what remains of it. The library throws instead, and loses what the iteration wrote.
 * All iterations of a loop share one environment, and each has its own `loop` value in it. One thing differs from
 * Python: the `else` of a loop in which every iteration jumps is not rendered.
 */
class LoopInterpreter extends BaseInterpreter {
  readonly #loopedOver = new WeakSet<JinjaNode>();
  #jump: { kind: "Break" | "Continue"; environment: JinjaEnvironment; loop: unknown } | undefined;

  override evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): JinjaValue {
    if (node?.type === "Break" || node?.type === "Continue") {
      this.#jump ??= { kind: node.type, environment, loop: environment.variables.get("loop") };
    }
    const value = super.evaluate(this.#isSkipping(environment) ? undefined : node, environment);
    // A text is gone through character by character.
    return node !== undefined && value?.type === "StringValue" && this.#loopedOver.has(node)
      ? runtimeValue([...String(value.value)])
      : value;
  }

  override evaluateFor(node: JinjaLoop, environment: JinjaEnvironment): JinjaValue {
    this.#loopedOver.add(node.iterable.type === "SelectExpression" ? (node.iterable.lhs ?? node) : node.iterable);
    return super.evaluateFor(node, environment);
  }

  override applyFilter(operand: JinjaValue, filter: JinjaFilter, environment: JinjaEnvironment): JinjaValue {
    const name = filter.value ?? filter.callee?.value ?? "";
    if (operand.type === "UndefinedValue" && TEXT_FILTERS.has(name))
      return super.applyFilter(runtimeValue(""), filter, environment);
    if (operand.type === "ObjectValue" && name === "string") return runtimeValue(pythonText(plain(operand)));
    if (operand.type === "StringValue" && name === "format") {
      const given = (filter.args ?? []).map((argument) => pythonText(plain(this.evaluate(argument, environment))));
      return runtimeValue(String(operand.value).replace(/%s/g, () => given.shift() ?? ""));
    }
    return super.applyFilter(operand, filter, environment);
  }

  /** `~` joins texts, of which some may be undefined. */
  override evaluateBinaryExpression(node: JinjaBinary, environment: JinjaEnvironment): JinjaValue {
    if (node.operator.value !== "~") return super.evaluateBinaryExpression(node, environment);
    const sides = [node.left, node.right].map((side) => this.evaluate(side, environment));
    return runtimeValue(sides.map((side) => (side.type === "UndefinedValue" ? "" : pythonText(plain(side)))).join(""));
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
