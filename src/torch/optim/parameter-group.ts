/** Groups of parameters with settings of their own. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Parameter } from "../nn/module.ts";

/** Parameters by name, as Module.namedParameters gives them. The names are those of the saved state. */
export type NamedParameters = ReadonlyMap<string, Parameter>;

/** Parameters and the settings in which they differ from the others. */
export type ParameterGroup<Settings> = Partial<Settings> & { readonly parameters: NamedParameters };

/** One group with common settings, or several. */
export type ParameterGroups<Settings> = NamedParameters | readonly ParameterGroup<Settings>[];

/** A group in an optimizer. */
export interface OptimizerGroup {
  readonly parameters: NamedParameters;
  /** The learning rate that schedules scale. */
  readonly baseLr: number;
  /** The learning rate of the next step. */
  lr: number;
}

/**
 * Two groups: weights with two dimensions or more decay, biases and norms do not.
 *
 * @param isMatrix says by the name which are which, where the parameters have lost their shape
 */
export function decayMatrices(
  parameters: NamedParameters,
  weightDecay: number,
  isMatrix = (name: string) => parameters.get(name)!.shape.length >= 2,
): ParameterGroup<{ readonly weightDecay: number }>[] {
  const all = [...parameters];
  return [
    { parameters: new Map(all.filter(([name]) => isMatrix(name))), weightDecay },
    { parameters: new Map(all.filter(([name]) => !isMatrix(name))), weightDecay: 0 },
  ].filter((group) => group.parameters.size > 0);
}

/** The parameters under "<prefix>.<name>", for modules that are trained by one optimizer but have no common parent. */
export function withPrefix(prefix: string, parameters: NamedParameters): NamedParameters {
  return new Map([...parameters].map(([name, parameter]) => [`${prefix}.${name}`, parameter]));
}

/** The groups with all settings filled in. Every parameter and every name belongs to one group. */
export function resolveGroups<Settings extends { readonly lr: number }>(
  groups: ParameterGroups<Settings>,
  defaults: Settings,
): (Settings & OptimizerGroup)[] {
  const list: readonly ParameterGroup<Settings>[] = isNamed(groups) ? [{ ...defaults, parameters: groups }] : groups;
  expectSeparate(list.map((group) => group.parameters));
  return list.map((group) => {
    const settings = { ...defaults, ...group };
    return { ...settings, baseLr: settings.lr };
  });
}

function isNamed<Settings>(groups: ParameterGroups<Settings>): groups is NamedParameters {
  return groups instanceof Map;
}

function expectSeparate(groups: readonly NamedParameters[]): void {
  const names = new Map<string, Parameter>();
  const seen = new Map<Parameter, string>();
  for (const [name, parameter] of groups.flatMap((group) => [...group])) {
    const other = seen.get(parameter);
    if (other !== undefined) throw sharedParameter(name, other);
    if (names.has(name)) throw sharedName(name);
    names.set(name, parameter);
    seen.set(parameter, name);
  }
  if (names.size > 0) return;
  throw new RerollError("INVALID_ARGUMENT", "The optimizer got no parameters. Pass model.namedParameters().");
}

function sharedParameter(name: string, other: string): RerollError {
  return new RerollError(
    "INVALID_ARGUMENT",
    `Parameter "${name}" is in the optimizer's groups already, as "${other}". Each may be in one group only, ` +
      "or it would be updated twice per step.",
  );
}

function sharedName(name: string): RerollError {
  return new RerollError(
    "INVALID_ARGUMENT",
    `Two parameters are called "${name}". Names must differ across groups, since the state is saved under them: ` +
      'use withPrefix("actor", actor.namedParameters()).',
  );
}
