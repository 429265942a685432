/**
 * Jinja as chat templates use it.
 *
 * In: a template and its variables. Out: the text that Python's jinja2 gives with the settings of transformers.
 * Built on `@huggingface/jinja`, with two differences: what an iteration wrote before `{% break %}` or `{% continue %}`
 * is kept, and `strftime_now` exists only when the caller gives a time, so a prompt never changes with the day by itself.
 */

import { Environment, Interpreter, parse, tokenize } from "@huggingface/jinja";
import { strftime } from "./strftime.ts";

/** A parsed template. Throws the library's error when the source is not Jinja. */
export class JinjaTemplate {
  readonly source: string;
  readonly #program: JinjaNode;

  constructor(source: string) {
    this.source = source;
    this.#program = parse(tokenize(source, { trim_blocks: true, lstrip_blocks: true }));
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
interface JinjaInterpreter {
  run(program: JinjaNode): { readonly value: unknown };
  evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): unknown;
}
const BaseInterpreter: new (environment: JinjaEnvironment) => JinjaInterpreter = Interpreter;

/**
 * Leaves a loop by skipping what remains of it. The library throws instead, and loses what the iteration wrote.
 * All iterations of a loop share one environment, and each has its own `loop` value in it. One thing differs from
 * Python: the `else` of a loop in which every iteration jumps is not rendered.
 */
class LoopInterpreter extends BaseInterpreter {
  #jump: { kind: "Break" | "Continue"; environment: JinjaEnvironment; loop: unknown } | undefined;

  override evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): unknown {
    if (node?.type === "Break" || node?.type === "Continue") {
      this.#jump ??= { kind: node.type, environment, loop: environment.variables.get("loop") };
    }
    return super.evaluate(this.#isSkipping(environment) ? undefined : node, environment);
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
