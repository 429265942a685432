/** A JSON Schema of options as rows of a table: key, values, default, meaning. */

export interface OptionRow {
  readonly key: string;
  readonly values: string;
  readonly initial: string;
  readonly meaning: string;
}

export type JsonSchema = Readonly<Record<string, unknown>>;

/** A row per key, and one per key of nested objects, as in `correction.importance.level`. */
export function schemaRows(schema: JsonSchema, prefix = ""): OptionRow[] {
  const required = Array.isArray(schema.required) ? schema.required : [];
  return Object.entries(propertiesOf(schema)).flatMap(([name, option]) => {
    const key = `${prefix}${name}`;
    const object = variantsOf(option).find((variant) => variant.properties !== undefined && !isTaggedObject(variant));
    return [
      {
        key,
        values: valuesOf(option),
        initial: required.includes(name) ? "required" : "default" in option ? show(option.default) : "",
        meaning: typeof option.description === "string" ? option.description : "",
      },
      ...(object === undefined ? [] : schemaRows(object, `${key}.`)),
    ];
  });
}

export function propertiesOf(schema: JsonSchema): Record<string, JsonSchema> {
  return (schema.properties ?? {}) as Record<string, JsonSchema>;
}

function variantsOf(option: JsonSchema): JsonSchema[] {
  const parts = [option.anyOf, option.oneOf].filter(Array.isArray).flat() as JsonSchema[];
  return parts.length === 0 ? [option] : parts.flatMap(variantsOf);
}

function valuesOf(option: JsonSchema): string {
  const variants = variantsOf(option);
  const tagged = variants.filter(isTaggedObject);
  const plain = variants.filter((variant) => !isTaggedObject(variant)).map(variantText);
  return [...(tagged.length === 0 ? [] : [taggedText(tagged)]), ...plain].join(" or ");
}

function isTaggedObject(option: JsonSchema): boolean {
  return propertiesOf(option).type?.const !== undefined;
}

/** As in `type: "fixed" (coefficient), "adaptive" (target, stepSize = 0.005)`. */
function taggedText(variants: readonly JsonSchema[]): string {
  const texts = variants.map((variant) => {
    const { type, ...others } = propertiesOf(variant);
    const keys = Object.entries(others).map(([name, value]) =>
      "default" in value ? `${name} = ${show(value.default)}` : name,
    );
    return `${show(type?.const)}${keys.length === 0 ? "" : ` (${keys.join(", ")})`}`;
  });
  return `type: ${texts.join(", ")}`;
}

function variantText(option: JsonSchema): string {
  if (typeof option.secret === "string") return option.secret;
  if (Array.isArray(option.enum)) return option.enum.map(show).join(", ");
  if (option.const !== undefined) return show(option.const);
  if (option.propertyNames !== undefined) return "values by name";
  if (option.properties !== undefined) return "object";
  if (Array.isArray(option.type)) return option.type.join(" or ");
  return `${option.type}${boundsText(option)}`;
}

function boundsText({ minimum, maximum, exclusiveMinimum, type }: JsonSchema): string {
  const isSafeBound = maximum === undefined || maximum === Number.MAX_SAFE_INTEGER;
  if (minimum !== undefined && !isSafeBound && type === "number") return ` in [${minimum}, ${maximum}]`;
  if (exclusiveMinimum !== undefined && !isSafeBound) return ` in (${exclusiveMinimum}, ${maximum}]`;
  if (minimum !== undefined && minimum !== Number.MIN_SAFE_INTEGER) return `, at least ${minimum}`;
  return exclusiveMinimum === undefined ? "" : `, above ${exclusiveMinimum}`;
}

function show(value: unknown): string {
  return typeof value === "string" ? `"${value}"` : JSON.stringify(value);
}
