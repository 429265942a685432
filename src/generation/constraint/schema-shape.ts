/** What can be told of a JSON Schema without writing its grammar. */

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
    const key = decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
    const holds = typeof found === "object" && found !== null && Object.hasOwn(found, key);
    found = holds ? Reflect.get(found as object, key) : undefined;
  }
  return found;
}

/** Whether some value of a schema has an end: one whose required parts hold the schema itself has none. */
export function canEnd(root: unknown): boolean {
  const pointers = new Set<string>();
  collectPointers(root, pointers);
  const ending = new Set<string>();
  for (let before = -1; before < ending.size; ) {
    before = ending.size;
    for (const pointer of pointers) if (endsWith(resolvePointer(root, pointer), ending)) ending.add(pointer);
  }
  return endsWith(root, ending);
}

function collectPointers(schema: unknown, pointers: Set<string>): void {
  if (typeof schema !== "object" || schema === null) return;
  for (const [name, value] of Object.entries(schema)) {
    if (name === "$ref" && typeof value === "string") pointers.add(value);
    else collectPointers(value, pointers);
  }
}

/** @param ending references that are known to have an end */
function endsWith(schema: unknown, ending: ReadonlySet<string>): boolean {
  if (!isSchemaObject(schema)) return true;
  const { $ref, properties, required, items, minItems, prefixItems } = schema;
  if (typeof $ref === "string") return ending.has($ref);
  for (const word of ["anyOf", "oneOf", "allOf"]) {
    const branches = schema[word];
    if (Array.isArray(branches)) return branches.some((branch) => endsWith(branch, ending));
  }
  const needed = [
    ...(Array.isArray(required) && isSchemaObject(properties) ? required.map((name) => properties[String(name)]) : []),
    ...(Array.isArray(prefixItems) ? prefixItems : []),
    ...(typeof minItems === "number" && minItems > 0 ? [items] : []),
  ];
  return needed.every((part) => endsWith(part, ending));
}

/** Whether no value fits two of these: their types differ, or a required property has different constants. */
export function areDisjoint(branches: readonly unknown[], root: unknown): boolean {
  const shapes = branches.map((branch) => shapeOf(branch, root));
  return shapes.every((one, index) => shapes.slice(index + 1).every((other) => differ(one, other)));
}

interface Shape {
  readonly types: readonly string[] | undefined;
  /** Values that a required property may have, by its name. */
  readonly constants: ReadonlyMap<string, readonly string[]>;
}

function shapeOf(branch: unknown, root: unknown): Shape {
  const schema = isSchemaObject(branch) && typeof branch.$ref === "string" ? resolvePointer(root, branch.$ref) : branch;
  if (!isSchemaObject(schema)) return { types: undefined, constants: new Map() };
  const { type, properties, required } = schema;
  const names = Array.isArray(required) && isSchemaObject(properties) ? required.map(String) : [];
  const constants = names.flatMap((name) => {
    const values = isSchemaObject(properties) ? valuesOf(properties[name]) : undefined;
    return values === undefined ? [] : [[name, values] as const];
  });
  return { types: type === undefined ? undefined : [type].flat().map(String), constants: new Map(constants) };
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
