/** Reads an optimizer's saved state: which parameter a key refers to, and whether it fits. */
import { RerollError } from "../../errors/reroll-error.ts";
import { emptyLike } from "../create.ts";
import { keep } from "../scope.ts";
import type { Tensor } from "../tensor.ts";
import type { OptimizerState } from "./optimizer.ts";
import type { OptimizerGroup } from "./parameter-group.ts";

/** The learning rates under their keys. */
export function savedLrs(groups: readonly OptimizerGroup[]): Record<string, number> {
  return Object.fromEntries(groups.map((group, i) => [`lr.${i}`, group.lr]));
}

/** Sets the learning rates that were saved. */
export function loadLrs(groups: readonly OptimizerGroup[], { numbers }: OptimizerState): void {
  for (const [i, group] of groups.entries()) group.lr = numbers[`lr.${i}`] ?? group.lr;
}

/**
 * Throws unless every key of the state is of a known kind, refers to a parameter that the optimizer has, and its tensor
 * has the shape of that parameter.
 */
export function expectFits(
  { tensors, numbers }: OptimizerState,
  groups: readonly OptimizerGroup[],
  kinds: {
    readonly tensors: readonly string[];
    /** Kinds of tensors whose shape is not that of their parameter. Default: none. */
    readonly unshaped?: readonly string[];
    readonly numbers: readonly string[];
  },
): void {
  const { unshaped = [] } = kinds;
  const parameters = new Map(groups.flatMap((group) => [...group.parameters]));
  const names = new Set(parameters.keys());
  const [lrs, others] = partition(Object.keys(numbers), (key) => splitKey(key)[0] === "lr");
  if (lrs.length !== groups.length) {
    throw mismatch(
      `The optimizer's state has ${lrs.length} parameter groups, the optimizer has ${groups.length}. ` +
        "Load it into an optimizer with the same groups.",
    );
  }
  for (const key of others) expectKnown(key, kinds.numbers, names);
  for (const [key, value] of tensors) {
    expectKnown(key, [...kinds.tensors, ...unshaped], names);
    const [kind, name] = splitKey(key);
    if (!unshaped.includes(kind)) expectShape(key, value, parameters.get(name)!.shape);
  }
}

/** The saved tensor that belongs into `own`, which is of the same format. */
export function savedPart(tensors: ReadonlyMap<string, Tensor>, key: string, own: Tensor): Tensor {
  const saved = tensors.get(key);
  if (saved === undefined) {
    throw mismatch(`The optimizer's state has no "${key}", though it has other entries of that parameter.`);
  }
  // Codes mean nothing as numbers, nor numbers as codes.
  if ((saved.dtype === "uint8") !== (own.dtype === "uint8")) {
    throw mismatch(
      `The optimizer's state has "${key}" as ${saved.dtype}, and the optimizer keeps it as ${own.dtype}. Load it into an optimizer with the same format of moments.`,
    );
  }
  return saved;
}

/** The saved tensor as a new one that no scope owns, with the type and place of `like`. */
export function loaded(tensors: ReadonlyMap<string, Tensor>, key: string, like: Tensor): Tensor {
  return keep(emptyLike(like).copy_(savedPart(tensors, key, like)));
}

function expectKnown(key: string, kinds: readonly string[], names: ReadonlySet<string>): void {
  const [kind, name] = splitKey(key);
  if (kinds.includes(kind) && names.has(name)) return;
  throw mismatch(
    `The optimizer's state has "${key}", which does not fit. Known kinds are ${kinds.join(", ")}, followed by the name ` +
      `of one of the ${names.size} parameters, such as "${[...names][0]}". Load it into an optimizer with the same ` +
      "settings over the same model.",
  );
}

function expectShape(key: string, { shape: got }: Tensor, expected: readonly number[]): void {
  if (got.length === expected.length && got.every((size, i) => size === expected[i])) return;
  throw mismatch(
    `The optimizer's state has "${key}" of shape [${got.join(", ")}], but the parameter has [${expected.join(", ")}].`,
  );
}

function partition<T>(items: readonly T[], isFirst: (item: T) => boolean): [T[], T[]] {
  return [items.filter(isFirst), items.filter((item) => !isFirst(item))];
}

function splitKey(key: string): [kind: string, name: string] {
  const dot = key.indexOf(".");
  return [key.slice(0, dot), key.slice(dot + 1)];
}

function mismatch(message: string): RerollError {
  return new RerollError("STATE_MISMATCH", message);
}
