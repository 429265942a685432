/**
 * JSON Schema as a grammar.
 *
 * In: a schema. Out: rules whose texts are all valid: JSON in one line, properties in the order of the schema. The grammar may allow less
 * than the schema (properties without a name where others have one, exponents), never more. Keywords that it cannot enforce are refused by
 * name; those that mean nothing for validity are skipped.
 */
import {
  type CharRange,
  charSequences,
  invalidConstraint,
  literal,
  plainJsonCharacters,
  repeated,
} from "./grammar-text.ts";
import { integerGrammar, type NumberBounds, numberGrammar } from "./number-grammar.ts";
import { regexGrammar } from "./regex-grammar.ts";
import { INSIDE_MARK } from "./reply-position.ts";
import {
  areDisjoint,
  beginDifferently,
  canEnd,
  isSchemaObject,
  resolvePointer,
  type SchemaObject,
} from "./schema-shape.ts";
import { lengthMark } from "./string-lengths.ts";

interface SchemaGrammarOptions {
  /** The name of the rule that a value is. Default "root". */
  readonly root?: string;
  /** What the names of all other rules begin with. */
  readonly prefix?: string;
  /** The field that the client typed, for messages. */
  readonly param?: string;
  /** Whether other rules may be at work on the same text. */
  readonly isAmongOthers?: boolean;
}

/** Whether strings of these rules have the mark that shows that a reply is inside of one: see reply-position.ts. */
export function hasInsideMark(rules: string): boolean {
  return rules.includes(charSequences([insideMark, ...plainJsonCharacters])[0]!);
}

const insideMark: CharRange = [INSIDE_MARK.charCodeAt(0), INSIDE_MARK.charCodeAt(0)];

export function schemaGrammar(schema: unknown, options: SchemaGrammarOptions = {}): string {
  return new SchemaWriter(schema, options).write();
}

/** Keywords that change what is valid, and that a grammar like this cannot follow. */
const UNENFORCED: readonly string[] = [
  ...["not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies"],
  ...["contains", "minContains", "maxContains", "multipleOf", "patternProperties", "propertyNames"],
  ...["unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef"],
];

const OBJECT_WORDS = ["properties", "required", "additionalProperties", "minProperties", "maxProperties"];
const ARRAY_WORDS = ["items", "prefixItems", "minItems", "maxItems", "uniqueItems"];
const STRING_WORDS = ["pattern", "minLength", "maxLength", "format"];
const NUMBER_WORDS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
const TYPE_WORDS = [...OBJECT_WORDS, ...ARRAY_WORDS, ...STRING_WORDS, ...NUMBER_WORDS];
const CHOICE_WORDS = ["enum", "const", "anyOf", "oneOf", "allOf", "$ref"];

/** Formats that are written as they should be. Others are annotations, as JSON Schema has all of them unless it is told otherwise. */
const FORMATS: Readonly<Record<string, string>> = {
  date: "^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\\d|2[0-8])$",
  time: "^([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\dZ$",
  "date-time": "^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\\d|2[0-8])T([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\dZ$",
  uuid: "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
  email: "^[a-z0-9]([._]?[a-z0-9]){0,30}@[a-z0-9]{1,40}\\.[a-z]{2,10}$",
  ipv4: "^((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)$",
};

const MAX_COUNT = 10_000;
const MAX_REFERENCES = 500;

class SchemaWriter {
  readonly #schema: unknown;
  readonly #root: string;
  readonly #prefix: string;
  readonly #param: string;
  readonly #rules: string[] = [];
  /** Rules that every JSON value may need, once one did. */
  readonly #shared = new Set<string>();
  readonly #references = new Map<string, string>();
  /** References that are being written, with nothing in front of this place: one to them would go on for ever. */
  #leading = new Set<string>();
  #numRules = 0;
  /**
   * Whether other rules may be at work where a string is written, as in two branches that begin alike. Its mark would rule those out, so it has
   * none there.
   */
  #isAmongOthers: boolean;

  constructor(
    schema: unknown,
    { root = "root", prefix = "", param = "response_format", isAmongOthers = false }: SchemaGrammarOptions,
  ) {
    this.#isAmongOthers = isAmongOthers;
    this.#schema = schema;
    this.#root = root;
    this.#prefix = prefix;
    this.#param = param;
  }

  write(): string {
    const value = this.#value(this.#schema, "#");
    if (!canEnd(this.#schema)) throw this.#refuse("#", "has no value that ends: a required part holds itself");
    this.#rules.push(`${this.#root} ::= ${value}`);
    return `${this.#rules.join("\n")}\n`;
  }

  #value(schema: unknown, at: string): string {
    if (schema === true) return this.#any();
    if (!isSchemaObject(schema)) {
      throw this.#refuse(at, schema === false ? "allows nothing (false)" : "must be an object or true");
    }
    for (const word of UNENFORCED) if (word in schema) throw this.#refuse(at, `has ${word}, which cannot be enforced`);
    const choice = CHOICE_WORDS.find((word) => word in schema);
    if (choice !== undefined) return this.#choice(schema, choice, at);
    if (schema.uniqueItems === true) throw this.#refuse(at, "has uniqueItems, which cannot be enforced");
    const types = typesOf(schema);
    if (types?.length === 0) throw this.#refuse(at, "has an empty list as type");
    return types === undefined ? this.#any() : this.#either(types.map((type) => this.#typed(schema, type, at)));
  }

  #choice(schema: SchemaObject, word: string, at: string): string {
    const other = [...CHOICE_WORDS, ...TYPE_WORDS].find((name) => name !== word && name in schema);
    if (other !== undefined) throw this.#refuse(at, `has ${word} and ${other} side by side; put one into the other`);
    if (word === "enum" || word === "const") return this.#values(schema, word, at);
    if (schema.type !== undefined) throw this.#refuse(at, `has ${word} and type side by side; put the type into it`);
    if (word === "$ref") return this.#reference(schema.$ref, at);
    const branches = schema[word];
    if (!Array.isArray(branches) || branches.length === 0) throw this.#refuse(at, `must have a list as ${word}`);
    if (word === "allOf" && branches.length > 1)
      throw this.#refuse(at, "has allOf with several parts; write them as one");
    if (word === "oneOf" && !areDisjoint(branches, this.#schema)) {
      throw this.#refuse(
        at,
        "has oneOf with branches that may both match; use anyOf, or give each a type or a const of its own",
      );
    }
    const isAmongOthers = this.#isAmongOthers;
    this.#isAmongOthers ||= branches.length > 1 && !beginDifferently(branches, this.#schema);
    const written = branches.map((branch, index) => this.#value(branch, `${at}/${word}/${index}`));
    this.#isAmongOthers = isAmongOthers;
    return this.#either(written);
  }

  #values(schema: SchemaObject, word: "enum" | "const", at: string): string {
    const given = word === "const" ? [schema.const] : schema.enum;
    const types = schema.type === undefined ? undefined : [schema.type].flat();
    const values = Array.isArray(given)
      ? given.filter((value) => types?.some((type) => hasType(value, type)) ?? true)
      : [];
    if (values.length === 0) throw this.#refuse(at, `must have values of its type in ${word}`);
    return this.#either(values.map((value) => literal(JSON.stringify(value))));
  }

  #reference(pointer: unknown, at: string): string {
    if (typeof pointer !== "string") throw this.#refuse(at, "must have a text as $ref");
    if (this.#leading.has(pointer)) throw this.#refuse(at, `refers to ${pointer}, which it is itself`);
    const key = this.#placed(pointer);
    const known = this.#references.get(key);
    if (known !== undefined) return known;
    if (this.#references.size >= MAX_REFERENCES)
      throw this.#refuse(at, `is one of more than ${MAX_REFERENCES} references`);
    const target = resolvePointer(this.#schema, pointer);
    if (target === undefined) throw this.#refuse(at, `refers to ${pointer}, which is not in the schema`);
    if (isSchemaObject(target) && "$ref" in target)
      throw this.#refuse(at, `refers to ${pointer}, which refers to another one; name that one`);
    const name = this.#newName();
    this.#references.set(key, name);
    this.#leading.add(pointer);
    this.#rules.push(`${name} ::= ${this.#value(target, pointer)}`);
    this.#leading.delete(pointer);
    return name;
  }

  #typed(schema: SchemaObject, type: string, at: string): string {
    switch (type) {
      case "object":
        return this.#inside(() => this.#object(schema, at));
      case "array":
        return this.#inside(() => this.#array(schema, at));
      case "string":
        return this.#string(schema, at);
      case "integer":
      case "number":
        return this.#number(schema, type, at);
      case "boolean":
        return '("true" | "false")';
      case "null":
        return '"null"';
      default:
        throw this.#refuse(at, `has the type ${JSON.stringify(type)}, which JSON does not have`);
    }
  }

  /** Writes what stands behind a bracket. */
  #inside(write: () => string): string {
    const leading = this.#leading;
    this.#leading = new Set();
    const written = write();
    this.#leading = leading;
    return written;
  }

  #object(schema: SchemaObject, at: string): string {
    const [properties, required] = [schema.properties ?? {}, schema.required ?? []];
    if (!isSchemaObject(properties)) throw this.#refuse(at, "must have an object as properties");
    if (!isTexts(required)) throw this.#refuse(at, "must have a list of texts as required");
    const others = schema.additionalProperties ?? true;
    const names = [...new Set([...Object.keys(properties), ...required])];
    if (names.length === 0) return this.#map(schema, others, at);
    const missing = required.find((name) => !Object.hasOwn(properties, name));
    if (missing !== undefined && others === false)
      throw this.#refuse(at, `requires ${missing}, which it does not allow`);
    this.#expectCount(schema, "minProperties", at, (count) => count <= required.length, "more than is required");
    this.#expectCount(schema, "maxProperties", at, (count) => count >= names.length, "fewer than there are");
    const pairs = names.map((name) => {
      const value = this.#value(
        Object.hasOwn(properties, name) ? properties[name] : others,
        `${at}/properties/${name}`,
      );
      return { text: `${literal(`${JSON.stringify(name)}: `)} ${value}`, isRequired: required.includes(name) };
    });
    return `"{" ${this.#pairs(pairs)} "}"`;
  }

  /** Pairs in order, any of those that are not required left out. `rest` follows a pair, `first` does not. */
  #pairs(pairs: readonly { readonly text: string; readonly isRequired: boolean }[]): string {
    let [first, rest] = ['""', '""'];
    for (const { text, isRequired } of pairs.toReversed()) {
      const after = this.#rule(rest);
      const skipped = isRequired ? [] : [this.#rule(first)];
      first = [`${text} ${after}`, ...skipped].join(" | ");
      rest = [`", " ${text} ${after}`, ...(isRequired ? [] : [after])].join(" | ");
    }
    return this.#rule(first);
  }

  #map(schema: SchemaObject, others: unknown, at: string): string {
    // A name may come twice, and then counts once.
    this.#expectCount(schema, "minProperties", at, (count) => count === 0, "which cannot be enforced without names");
    if (others === false) return '"{" "}"';
    const max = this.#count(schema, "maxProperties", Infinity, at);
    const pair = this.#rule(`${this.#text()} ": " ${this.#value(others, `${at}/additionalProperties`)}`);
    return `"{" ${this.#list(pair, 0, max)} "}"`;
  }

  #array(schema: SchemaObject, at: string): string {
    const prefix = schema.prefixItems ?? [];
    if (!isList(prefix)) throw this.#refuse(at, "must have a list as prefixItems");
    const min = this.#count(schema, "minItems", 0, at);
    const most = this.#count(schema, "maxItems", Infinity, at);
    const max = schema.items === false ? Math.min(prefix.length, most) : most;
    if (max < min || max < prefix.length) throw this.#refuse(at, "allows fewer items than it asks for");
    const first = prefix.map((item, index) => this.#value(item, `${at}/prefixItems/${index}`)).join(' ", " ');
    if (max === prefix.length) return `"[" ${first === "" ? '""' : first} "]"`;
    const item = this.#rule(this.#value(schema.items ?? true, `${at}/items`));
    if (prefix.length === 0) return `"[" ${this.#list(item, min, max)} "]"`;
    return `"[" ${first} ${repeated(`", " ${item}`, Math.max(0, min - prefix.length), max - prefix.length)} "]"`;
  }

  #list(item: string, min: number, max: number): string {
    if (max === 0) return '""';
    const some = `${item} ${repeated(`", " ${item}`, Math.max(0, min - 1), max - 1)}`;
    return min === 0 ? `(${some})?` : some;
  }

  #string(schema: SchemaObject, at: string): string {
    const isBounded = schema.minLength !== undefined || schema.maxLength !== undefined;
    const form = this.#form(schema, at);
    if (form !== undefined) {
      const { word, pattern } = form;
      if (isBounded) throw this.#refuse(at, `has ${word} and a length side by side; put both into one pattern`);
      return `"\\"" (${regexGrammar(pattern, "json-string")}) "\\""`;
    }
    if (!isBounded) return this.#text();
    const min = this.#count(schema, "minLength", 0, at);
    const max = this.#count(schema, "maxLength", Infinity, at);
    if (max < min) throw this.#refuse(at, "allows fewer characters than it asks for");
    if (max === Infinity && min <= 1) return `"\\"" ${min === 1 ? this.#character() : ""} ${this.#rest()}`;
    return `"\\"" ${literal(lengthMark({ min, max }))} ${this.#rest()}`;
  }

  /** The pattern that a string must match, and the keyword that says so. A pattern beside a format is the more exact one. */
  #form(
    { pattern, format }: SchemaObject,
    at: string,
  ): { readonly word: string; readonly pattern: string } | undefined {
    for (const [word, value] of Object.entries({ pattern, format })) {
      if (typeof (value ?? "") !== "string") throw this.#refuse(at, `must have a text as ${word}`);
    }
    if (typeof pattern === "string") return { word: "pattern", pattern };
    const known = typeof format === "string" && Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined;
    return known === undefined ? undefined : { word: "format", pattern: known };
  }

  #number(schema: SchemaObject, type: "integer" | "number", at: string): string {
    const bound = (name: keyof NumberBounds, open: number) => {
      const value = schema[name] ?? open;
      if (typeof value !== "number") throw this.#refuse(at, `must have a number as ${name}`);
      return value;
    };
    const bounds = {
      minimum: bound("minimum", -Infinity),
      maximum: bound("maximum", Infinity),
      exclusiveMinimum: bound("exclusiveMinimum", -Infinity),
      exclusiveMaximum: bound("exclusiveMaximum", Infinity),
    };
    const shown = type === "integer" ? integerGrammar(bounds) : numberGrammar(bounds);
    if (shown === undefined) throw this.#refuse(at, `has bounds that no ${type} lies between`);
    return this.#rule(shown);
  }

  /** Any string. */
  #text(): string {
    return this.#share(this.#placed("string"), `"\\"" ${this.#rest()}`);
  }

  /**
   * What follows in a string, up to its end. The rule goes on with itself: whether a token of many characters fits is then known when the
   * grammar is compiled, whereas behind every end of a rule it has to be found out anew for each token, at each draw. For the same
   * reason it says what may stand behind a string.
   */
  #rest(): string {
    const name = this.#placed("rest");
    const characters = this.#characters(this.#isAmongOthers ? [] : [insideMark]);
    const more = characters.map((character) => `${character} ${this.#named(name)}`);
    return this.#share(name, `("\\"" | ${more.join(" | ")}) (= [,}\\]:])`);
  }

  /** A character of a string as a rule. */
  #character(): string {
    return this.#share("char", this.#characters().join(" | "));
  }

  #characters(marks: readonly CharRange[] = []): readonly string[] {
    const hex = "[0-9A-Fa-f]";
    // Without surrogates: two of them would be one character.
    const code = this.#share("code", `[0-9A-CE-Fa-ce-f] ${hex}{3} | [Dd] [0-7] ${hex}{2}`);
    return [...charSequences([...marks, ...plainJsonCharacters]), '"\\\\" ["\\\\/bfnrt]', `"\\\\u" ${code}`];
  }

  #any(): string {
    const text = this.#text();
    const name = this.#placed("any");
    const [number, any] = [this.#named("number"), this.#named(name)];
    this.#share("number", '"-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]{1,9})?');
    return this.#share(
      name,
      `${text} | ${number} | "true" | "false" | "null" | "[" (${any} (", " ${any})*)? "]" | "{" (${text} ": " ${any} (", " ${text} ": " ${any})*)? "}"`,
    );
  }

  /** A name for here: what has strings in it is written differently among others. */
  #placed(name: string): string {
    return this.#isAmongOthers ? `${name}_among` : name;
  }

  #share(name: string, body: string): string {
    if (!this.#shared.has(name)) this.#rules.push(`${this.#named(name)} ::= ${body}`);
    this.#shared.add(name);
    return this.#named(name);
  }

  #either(parts: readonly string[]): string {
    return parts.length === 1 ? parts[0]! : `(${parts.map((part) => `(${part})`).join(" | ")})`;
  }

  #rule(body: string): string {
    const name = this.#newName();
    this.#rules.push(`${name} ::= ${body}`);
    return name;
  }

  #newName(): string {
    return `${this.#prefix}r${this.#numRules++}`;
  }

  #named(name: string): string {
    return `${this.#prefix}${name}`;
  }

  #count(schema: SchemaObject, name: string, open: number, at: string): number {
    const count = schema[name];
    if (count === undefined) return open;
    if (typeof count === "number" && Number.isInteger(count) && count >= 0 && count <= MAX_COUNT) return count;
    throw this.#refuse(at, `must have a whole number from 0 to ${MAX_COUNT} as ${name}`);
  }

  #expectCount(schema: SchemaObject, name: string, at: string, isMet: (count: number) => boolean, why: string): void {
    if (schema[name] !== undefined && !isMet(this.#count(schema, name, 0, at)))
      throw this.#refuse(at, `has ${name} ${why}`);
  }

  #refuse(at: string, why: string) {
    return invalidConstraint(this.#param, `The JSON schema cannot be enforced: ${at} ${why}.`);
  }
}

/** The types a value may have; undefined where any will do. Keywords of one type alone ask for that type. */
function typesOf(schema: SchemaObject): readonly string[] | undefined {
  if (schema.type !== undefined) return [schema.type].flat().map(String);
  const has = (words: readonly string[]) => words.some((word) => word in schema);
  const types = [
    ...(has(OBJECT_WORDS) ? ["object"] : []),
    ...(has(ARRAY_WORDS) ? ["array"] : []),
    ...(has(STRING_WORDS) ? ["string"] : []),
    ...(has(NUMBER_WORDS) ? ["number"] : []),
  ];
  return types.length === 0 ? undefined : types;
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

function isTexts(value: unknown): value is readonly string[] {
  return isList(value) && value.every((one) => typeof one === "string");
}

function hasType(value: unknown, type: unknown): boolean {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "integer") return Number.isInteger(value);
  if (type === "object") return typeof value === "object" && value !== null && !Array.isArray(value);
  return typeof value === type;
}
