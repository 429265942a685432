/**
 * Every built-in environment, and the one way to build one from a run file's `{ type, ...options }`.
 *
 * To add an environment: one line in the table.
 */
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import { copyData } from "../flow/copy-data.ts";
import { cartPoleText } from "./cart-pole-text/cart-pole-text.ts";
import { countdown } from "./countdown/countdown.ts";
import { frozenLake } from "./frozen-lake/frozen-lake.ts";
import { openenv } from "./openenv/openenv.ts";
import { questionAnswer } from "./question-answer/question-answer.ts";
import { remoteEnv } from "./remote/remote-env.ts";
import { sokoban } from "./sokoban/sokoban.ts";
import type { EnvDefinition, EnvFactory } from "./text-env.ts";
import { toolUse } from "./tool-use/tool-use.ts";
import { webshop } from "./webshop/webshop.ts";

/** A definition that checks the options it is built with. */
interface EnvEntry<Schema extends z.ZodObject = z.ZodObject> {
  readonly type: string;
  readonly options: Schema;
  /** Checks the options and builds; refuses wrong ones by name. */
  readonly build: (options: unknown) => EnvFactory;
}

/** An environment as run files name it. */
export interface EnvChoice {
  readonly type: string;
  readonly [option: string]: unknown;
}

/** The built-in environments by the type that run files name, sorted. Everything else that knows them derives from here. */
const builtIn = {
  "cart-pole-text": entry(cartPoleText),
  countdown: entry(countdown),
  "frozen-lake": entry(frozenLake),
  openenv: entry(openenv),
  "question-answer": entry(questionAnswer),
  remote: entry(remoteEnv),
  sokoban: entry(sokoban),
  "tool-use": entry(toolUse),
  webshop: entry(webshop),
};

/** A built-in environment with the options that differ from its defaults. */
export type BuiltInEnv = {
  [Type in keyof typeof builtIn]: { readonly type: Type } & z.input<(typeof builtIn)[Type]["options"]>;
}[keyof typeof builtIn];

/** Every built-in environment, sorted by type. */
export const envCatalog: readonly EnvEntry[] = Object.entries(builtIn).map(([type, one]) => ({ ...one, type }));

/** The address of this file, for threads that build environments by type: `runInThreads({ module: catalogModule, ... })`. */
export const catalogModule = import.meta.url;

/** Builds the environment that a run file names; `custom` is one that it holds. */
export function buildEnv({ type, ...options }: EnvChoice): EnvFactory {
  if (type === "custom") return withCopies(expectFactory(options, "env"));
  const found = envCatalog.find((one) => one.type === type);
  if (found !== undefined) return found.build(options);
  const known = envCatalog.map((one) => one.type).join(", ");
  throw new RerollError("INVALID_OPTION", `env.type "${type}" is not known. Built in are: ${known}.`, { type });
}

/** Checks the environment of a person's own: `{ type: "custom", ...myEnv() }`. */
export function expectFactory(given: object, path: string): EnvFactory {
  if ("makeEnv" in given && typeof given.makeEnv === "function") return given as EnvFactory;
  throw new RerollError(
    "INVALID_OPTION",
    `${path} is of type custom and has no function makeEnv. Write { type: "custom", ...myEnv() }, where myEnv gives an EnvFactory.`,
  );
}

/** Prompts are shared by all samples of a group: an environment that writes into its own changes nothing for the others. */
function withCopies(factory: EnvFactory): EnvFactory {
  return { ...factory, makeEnv: (prompt, seed) => factory.makeEnv(copyData(prompt), seed) };
}

function entry<Schema extends z.ZodObject>({ type, options, build }: EnvDefinition<Schema>): EnvEntry<Schema> {
  const parse = (given: unknown): z.output<Schema> => {
    const parsed = options.safeParse(given);
    if (parsed.success) return parsed.data;
    const faults = z.prettifyError(parsed.error);
    throw new RerollError("INVALID_OPTION", `Env "${type}" cannot be built with these options:\n${faults}`, { type });
  };
  return { type, options, build: (given) => build(parse(given)) };
}
