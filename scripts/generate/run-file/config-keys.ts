/** Every key of a schema as a row: its dotted name, what it takes, its default and what it means. */
import { z } from "zod";
import { dataOptions } from "../../../src/data/data-options.ts";
import { type JsonSchema, type OptionRow, schemaRows } from "../algorithm-table/schema-rows.ts";

/**
 * Rows of an object and of the objects in it. A key of one choice among several has the choice in its name: `loop(async).steps`.
 * `given` is what the object is where nobody writes it, which replaces the defaults of its keys.
 */
export function configKeys(schema: z.core.$ZodType, prefix = "", given: Given = {}): OptionRow[] {
  if (!(schema instanceof z.ZodObject)) return [];
  return Object.entries<z.core.$ZodType>(schema.shape).flatMap(([name, option]) => {
    const key = `${prefix}${name}`;
    const { inner, isNullable, initial } = unwrap(option);
    const row = rowOf(key, option, given[name]);
    if (isSource(inner)) return [{ ...row, values: `a source of prompts${isNullable ? " or null" : ""}` }];
    if (inner instanceof z.ZodRecord) return [{ ...row, values: "values by name" }];
    if (inner instanceof z.ZodDiscriminatedUnion) return [tagRow(row, inner), ...choiceRows(key, inner)];
    if (!(inner instanceof z.ZodObject) || inner.def.catchall instanceof z.ZodUnknown) return [row];
    const own = isNullable ? [{ ...row, values: "object or null" }] : [];
    return [...own, ...configKeys(inner, `${key}.`, isPlain(initial) ? initial : {})];
  });
}

type Given = Readonly<Record<string, unknown>>;

/** Without the wrappers that make a schema optional. */
function unwrap(schema: z.core.$ZodType): { inner: z.core.$ZodType; isNullable: boolean; initial: unknown } {
  let inner = schema;
  let isNullable = false;
  let initial: unknown;
  while (
    inner instanceof z.ZodOptional ||
    inner instanceof z.ZodDefault ||
    inner instanceof z.ZodPrefault ||
    inner instanceof z.ZodNullable
  ) {
    isNullable ||= inner instanceof z.ZodNullable;
    if (inner instanceof z.ZodDefault || inner instanceof z.ZodPrefault) initial ??= inner.def.defaultValue;
    inner = inner.unwrap();
  }
  return { inner, isNullable, initial };
}

/** A description makes a copy of a schema, with the same choices. */
function isSource(schema: z.core.$ZodType): boolean {
  return schema instanceof z.ZodDiscriminatedUnion && schema.def.options === dataOptions.def.options;
}

function tagRow(row: OptionRow, union: z.ZodDiscriminatedUnion): OptionRow {
  const { discriminator, options } = union.def;
  const tags = options.map((choice) => JSON.stringify(tagOf(choice, discriminator)));
  return { ...row, values: `${discriminator}: ${tags.join(", ")}` };
}

/** The keys of each choice. A tag has a row of its own where it says what its choice means. */
function choiceRows(key: string, { def: { discriminator, options } }: z.ZodDiscriminatedUnion): OptionRow[] {
  return options.flatMap((choice) => {
    const { [discriminator]: tag, ...shape } = choice instanceof z.ZodObject ? choice.shape : {};
    const isDescribed = tag instanceof z.ZodLiteral && tag.description !== undefined;
    const keys = isDescribed ? { [discriminator]: tag, ...shape } : shape;
    return configKeys(z.object(keys), `${key}(${tagOf(choice, discriminator)}).`);
  });
}

function tagOf(choice: z.core.$ZodType, discriminator: string): string {
  const tag = choice instanceof z.ZodObject ? choice.shape[discriminator] : undefined;
  return String([...(tag?._zod.values ?? [])][0] ?? "");
}

function rowOf(key: string, option: z.core.$ZodType, given: unknown): OptionRow {
  const json = z.toJSONSchema(z.object({ x: option }), { io: "input", unrepresentable: "any" }) as JsonSchema;
  const found = schemaRows({ ...json, properties: { x: resolved(json) } })[0]!;
  // JSON Schema has no word for functions.
  const row = { ...found, key, values: found.values.replace("undefined", "function") };
  // Nor has it defaults for what is parsed into something else, as secrets are.
  const initial = given ?? (row.initial === "" ? unwrap(option).initial : undefined);
  return initial === undefined ? row : { ...row, initial: JSON.stringify(initial) };
}

/** The schema of `x`, which stands among the definitions where it holds itself. */
function resolved({ properties, $defs }: JsonSchema): JsonSchema {
  const { x } = properties as { readonly x: JsonSchema };
  const name = typeof x.$ref === "string" ? x.$ref.split("/").at(-1) : undefined;
  return name === undefined ? x : { ...($defs as Record<string, JsonSchema>)[name], ...x };
}

function isPlain(value: unknown): value is Given {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
