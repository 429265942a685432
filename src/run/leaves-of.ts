/** The values of a config by their dotted paths: what it is compared, explained and printed by. Pure, and imports no part of a run. */

/** A key with its value. */
interface Leaf {
  readonly key: string;
  readonly value: unknown;
}

/** Every value that is no object, with its dotted path. Lists are values, and so are objects that hold functions. */
export function leavesOf(value: object, prefix = ""): Leaf[] {
  return Object.entries(value).flatMap(([name, inner]) => {
    const key = `${prefix}${name}`;
    return isPlain(inner) && Object.keys(inner).length > 0 ? leavesOf(inner, `${key}.`) : [{ key, value: inner }];
  });
}

function isPlain(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
