/** Which schema the rows of a file have: the one that was asked for, or the first that fits the first row. */
import { RerollError } from "../errors/reroll-error.ts";
import type { DataRow } from "./data-row.ts";
import { valueAt } from "./fill-template.ts";
import type { MessageTemplate, RowFields, RowSchema } from "./row-schema.ts";
import { type RowSchemaName, rowSchemas } from "./row-schemas.ts";

/** Options about the rows of a file. */
export interface SchemaChoice {
  /** Default `auto`: `plain` where `fields` says where the question stands, else detected. */
  readonly schema?: RowSchemaName | "auto" | undefined;
  readonly fields?: RowFields | undefined;
  readonly template?: MessageTemplate | undefined;
  /** The domain of all rows, or new names for those that rows have. */
  readonly domain?: string | Readonly<Record<string, string>> | undefined;
}

/** A schema with everything settled that can be settled before the rows are read. */
export interface SettledSchema {
  readonly name: RowSchemaName;
  readonly derive: NonNullable<RowSchema["derive"]>;
  readonly fields: RowFields;
  readonly template: MessageTemplate;
  /** Makes the domain of a row from the one that it names. */
  readonly domainOf: (own: string | undefined) => string;
  /** The choice in words, for people. */
  readonly statement: string;
}

/** Settles the schema of a source by its first row. `place` names the file in errors. */
export function chooseSchema(first: DataRow, choice: SchemaChoice, place: string): SettledSchema {
  const asked = choice.schema ?? "auto";
  const isMapped = choice.fields?.question !== undefined || choice.fields?.messages !== undefined;
  const name = asked !== "auto" ? asked : isMapped ? "plain" : detectSchema(first, place);
  const schema: RowSchema = rowSchemas[name];
  if (asked !== "auto" && !isMapped && !schema.fits(first)) throw unfit(first, place, [name]);

  const derive = schema.derive ?? ((row) => row);
  const fields = { ...schema.fields(first), ...choice.fields };
  checkFields(fields, derive(first, 0), place);
  return {
    name,
    derive,
    fields,
    template: { ...schema.template, ...choice.template },
    domainOf: domainOf(choice.domain, schema.domain),
    statement: `schema ${name} (${asked === "auto" ? "detected" : "as asked"}): ${describeFields(fields)}`,
  };
}

/** The name of the first schema that fits. Throws with the columns of the row where none does. */
export function detectSchema(row: DataRow, place: string): RowSchemaName {
  const names = Object.keys(rowSchemas) as RowSchemaName[];
  const found = names.find((name) => rowSchemas[name].fits(row));
  if (found !== undefined) return found;
  throw unfit(row, place, names);
}

function unfit(row: DataRow, place: string, names: readonly RowSchemaName[]): RerollError {
  const columns = Object.keys(row);
  const known = names.map((name) => `\n  ${name}: ${rowSchemas[name].columns}`).join("");
  return new RerollError(
    "SCHEMA_UNKNOWN",
    `The rows of ${place} do not fit ${names.length === 1 ? `the schema ${names[0]}` : "any known schema"}: got the columns ${columns.join(", ")}. ` +
      `What is looked for:${known}\nName the columns yourself, as in fields: { question: "problem", truth: "answer" }.`,
    { columns, place },
  );
}

/** A misspelled column is an error about the first row already. Optional parts of a composite truth are not looked for. */
function checkFields(fields: RowFields, row: DataRow, place: string): void {
  for (const [key, value] of Object.entries(fields)) {
    const [path] = [value ?? []].flat();
    if (path === undefined || valueAt(row, path) !== undefined) continue;
    throw new RerollError(
      "SCHEMA_UNKNOWN",
      `fields.${key} names the column ${JSON.stringify(path)}, which ${place} does not have. Its columns are: ${Object.keys(row).join(", ")}.`,
      { key, path, columns: Object.keys(row) },
    );
  }
}

function domainOf(choice: SchemaChoice["domain"], otherwise: string): SettledSchema["domainOf"] {
  if (typeof choice === "string") return () => choice;
  return (own = otherwise) => choice?.[own] ?? own;
}

function describeFields({ question, messages, truth, ...others }: RowFields): string {
  const parts = { ...(messages === undefined ? { question } : { messages }), truth: truth ?? "none", ...others };
  return Object.entries(parts)
    .filter(([, path]) => path !== undefined)
    .map(([key, path]) => `${key} from ${[path].flat().join(" + ")}`)
    .join(", ")
    .replace("truth from none", "no truth");
}
