/** What can be told of a JSON Schema without writing its grammar. */
// Takes a lone % as it is, where decodeURIComponent throws.
import { unescape as decode } from "node:querystring";

export type SchemaObject = Readonly<Record<string, unknown>>;

export function isSchemaObject(schema: unknown): schema is SchemaObject {
  return typeof schema === "object" && schema !== null && !Array.isArray(schema);
}

/** The part of a schema that `#/...` names; undefined where there is none. */
export function resolvePointer(root: unknown, pointer: string): unknown {
  if (pointer === "#") return root;
  if (!pointer.startsWith("#/")) return undefined;
  let found: unknown = root;
  for (const step of pointer.slice(2).split("/")) {
    const key = decode(step).replaceAll("~1", "/").replaceAll("~0", "~");
    const holds = typeof found === "object" && found !== null && Object.hasOwn(found, key);
    found = holds ? Reflect.get(found as object, key) : undefined;
  }
  return found;
}

/** Whether some value of a schema has an end: one whose required parts hold the schema itself has none. */
export function canEnd(root: unknown): boolean {
  // Parts that are known to have an end. Each round follows every reference once, and ends unless it found more of them.
  const ending = new Set<unknown>();
  for (let before = -1; before < ending.size; ) {
    before = ending.size;
    if (endsWith(root, root, ending, new Set())) return true;
  }
  return false;
}

/** @param seen parts that this round came by: one of them again, inside of itself, is no end */
function endsWith(schema: unknown, root: unknown, ending: Set<unknown>, seen: Set<unknown>): boolean {
  if (!isSchemaObject(schema) || ending.has(schema)) return true;
  if (seen.has(schema)) return false;
  seen.add(schema);
  const ends = (part: unknown) => endsWith(part, root, ending, seen);
  const { $ref } = schema;
  const choice = ["anyOf", "oneOf", "allOf"].map((word) => schema[word]).find((branches) => Array.isArray(branches));
  const isEnding =
    typeof $ref === "string"
      ? ends(resolvePointer(root, $ref))
      : (choice?.some(ends) ?? neededParts(schema).every(ends));
  if (isEnding) ending.add(schema);
  return isEnding;
}

function neededParts({ properties, required, items, minItems, prefixItems }: SchemaObject): readonly unknown[] {
  return [
    ...(Array.isArray(required) && isSchemaObject(properties) ? required.map((name) => properties[String(name)]) : []),
    ...(Array.isArray(prefixItems) ? prefixItems : []),
    ...(typeof minItems === "number" && minItems > 0 ? [items] : []),
  ];
}

/** Whether no value fits two of these: their types differ, or a required property has different constants. */
export function areDisjoint(branches: readonly unknown[], root: unknown): boolean {
  const shapes = branches.map((branch) => shapeOf(branch, root));
  return shapes.every((one, index) => shapes.slice(index + 1).every((other) => differ(one, other)));
}

/** Whether the beginning of a value, up to the first string that is not given, tells which of these it is of. */
export function beginDifferently(branches: readonly unknown[], root: unknown): boolean {
  const shapes = branches.map((branch) => shapeOf(branch, root));
  return shapes.every((one, index) => shapes.slice(index + 1).every((other) => beginsUnlike(one, other)));
}

function beginsUnlike(one: Shape, other: Shape): boolean {
  if (one.types === undefined || other.types === undefined) return false;
  const common = one.types.filter((type) => other.types?.includes(type));
  if (common.length === 0) return true;
  // Two objects: by their first names, or by what stands behind the same one.
  if (common.join() !== "object" || one.first === undefined || other.first === undefined) return false;
  if (one.first !== other.first) return true;
  const [values, others] = [one.constants.get(one.first), other.constants.get(other.first)];
  return values !== undefined && others !== undefined && !values.some((value) => others.includes(value));
}

interface Shape {
  readonly types: readonly string[] | undefined;
  /** Values that a required property may have, by its name. */
  readonly constants: ReadonlyMap<string, readonly string[]>;
  /** The property that every value begins with; undefined where there is none. */
  readonly first: string | undefined;
}

function shapeOf(branch: unknown, root: unknown): Shape {
  const schema = isSchemaObject(branch) && typeof branch.$ref === "string" ? resolvePointer(root, branch.$ref) : branch;
  if (!isSchemaObject(schema)) return { types: undefined, constants: new Map(), first: undefined };
  const { type, properties, required } = schema;
  const names = Array.isArray(required) && isSchemaObject(properties) ? required.map(String) : [];
  const constants = names.flatMap((name) => {
    const values = isSchemaObject(properties) ? valuesOf(properties[name]) : undefined;
    return values === undefined ? [] : [[name, values] as const];
  });
  const [leading] = isSchemaObject(properties) ? Object.keys(properties) : [];
  return {
    types: type === undefined ? undefined : [type].flat().map(String),
    constants: new Map(constants),
    first: leading !== undefined && names.includes(leading) ? leading : undefined,
  };
}

function valuesOf(schema: unknown): readonly string[] | undefined {
  if (!isSchemaObject(schema)) return undefined;
  if ("const" in schema) return [JSON.stringify(schema.const)];
  return Array.isArray(schema.enum) ? schema.enum.map((value) => JSON.stringify(value)) : undefined;
}

function differ(one: Shape, other: Shape): boolean {
  const isNumber = (type: string) => type === "integer" || type === "number";
  const overlap = one.types?.some((type) =>
    other.types?.some((also) => type === also || (isNumber(type) && isNumber(also))),
  );
  if (one.types !== undefined && other.types !== undefined && !overlap) return true;
  return [...one.constants].some(([name, values]) => {
    const others = other.constants.get(name);
    return others !== undefined && values.every((value) => !others.includes(value));
  });
}
