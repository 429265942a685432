/**
 * `--set a.b=c`: values that replace those of the run file.
 *
 * In: the words of the command line and what the file says. Out: a new object; what is given is not changed. Unknown keys are
 * left to the schema, which names the nearest known one.
 */
import { z } from "zod";
import { schemasAt } from "../errors/parse-options.ts";
import { redactText } from "../errors/redact-text.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { RawRun } from "./load-run-file.ts";
import { runConfig } from "./run-config.ts";

/** One value, and where it goes. */
export interface Override {
  readonly path: readonly string[];
  readonly value: unknown;
}

/** Reads `a.b=c`. The value is JSON, or else the text itself. */
export function parseOverride(text: string): Override {
  const at = text.indexOf("=");
  const path = text.slice(0, Math.max(at, 0)).trim().split(".");
  if (at < 0 || path.some((key) => key === "" || key === "__proto__")) {
    throw new RerollError(
      "INVALID_OVERRIDE",
      `--set takes key=value, as in rollout.groupSize=16: got ${JSON.stringify(at < 0 ? redactText(text) : text.slice(0, at + 1))}.`,
    );
  }
  return { path, value: parseValue(text.slice(at + 1).trim(), path.join(".")) };
}

/** Sets each value, the last one of a key wins. Objects on the way are made, from the key's default where it has one. */
export function applyOverrides(raw: RawRun, overrides: readonly Override[], schema: z.ZodObject = runConfig): RawRun {
  return overrides.reduce<RawRun>((run, { path, value }) => setAt(schema, run, path, value, []) as RawRun, raw);
}

function parseValue(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The message says nothing of the value, which may be a secret; neither may its cause.
    if (!/^[[{"]/.test(text)) return text;
    throw new RerollError(
      "INVALID_OVERRIDE",
      `--set ${name} starts with ${text[0]} and is not JSON, where keys are in double quotes. Put the whole word into single quotes, so that the shell leaves it as it is.`,
    );
  }
}

function setAt(
  schema: z.ZodObject,
  owner: unknown,
  path: readonly string[],
  value: unknown,
  above: readonly string[],
): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return value;
  const own = owner ?? defaultAt(schema, above) ?? {};
  const here = [...above, key];
  if (Array.isArray(own)) {
    const index = Number(key);
    if (!Number.isInteger(index) || index < 0 || index > own.length) throw wrongIndex(above, key, own.length);
    const set = setAt(schema, own[index], rest, value, here);
    return index === own.length ? [...own, set] : own.with(index, set);
  }
  if (typeof own !== "object") throw noOwner(above, path, own);
  const inner = Object.hasOwn(own, key) ? (own as RawRun)[key] : undefined;
  return { ...own, [key]: setAt(schema, inner, rest, value, here) };
}

/** The default of a key that the run file leaves out, such as `{ type: "grpo" }` for the algorithm. */
function defaultAt(root: z.ZodObject, path: readonly string[]): unknown {
  const key = path.at(-1);
  const [owner] = schemasAt(root, undefined, path.slice(0, -1));
  const schema = owner instanceof z.ZodObject && key !== undefined ? owner.shape[key] : undefined;
  return schema instanceof z.ZodPrefault || schema instanceof z.ZodDefault ? schema.def.defaultValue : undefined;
}

function wrongIndex(path: readonly string[], key: string, length: number): RerollError {
  const name = path.join(".");
  return new RerollError(
    "INVALID_OVERRIDE",
    `--set ${name}.${key}: ${name} is a list of ${length}. Use ${name}.0 to ${name}.${length}.`,
  );
}

function noOwner(above: readonly string[], path: readonly string[], value: unknown): RerollError {
  const name = above.join(".");
  const what = typeof value === "string" ? "a text" : JSON.stringify(value);
  return new RerollError(
    "INVALID_OVERRIDE",
    `--set ${[...above, ...path].join(".")}: ${name} is ${what} and has no keys. Set ${name} itself.`,
  );
}
