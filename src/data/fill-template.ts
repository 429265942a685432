/** Text with {placeholders} that name columns of a row, such as `{question}` or `{reward_model.ground_truth}`. */
import { RerollError } from "../errors/reroll-error.ts";
import type { JsonValue } from "../flow/prompt.ts";
import { type DataRow, isDataRow } from "./data-row.ts";

/**
 * Fills a template. `{name}` is replaced by the value once, whatever the value holds; `{{` and `}}` are braces. Braces around
 * anything that is no name, as in `\boxed{}`, stay as they are. Lists of texts are joined by line ends.
 */
export function fillTemplate(template: string, row: DataRow): string {
  return template.replace(/\{\{|\}\}|\{([A-Za-z_]\w*(?:\.\w+)*)\}/g, (match, path: string | undefined) => {
    if (path === undefined) return match.slice(1);
    const value = valueAt(row, path);
    if (value !== undefined && value !== null) return asText(value);
    throw new RerollError(
      "DATA_INVALID",
      `The template names {${path}}, which the row does not have. Its columns are: ${Object.keys(row).join(", ")}. Write {{${path}}} for the text itself.`,
      { path, columns: Object.keys(row) },
    );
  });
}

/** The value of a column, or of a field inside of it by a path with dots. A column that has the whole path as its name wins. */
export function valueAt(row: DataRow, path: string): JsonValue | undefined {
  if (Object.hasOwn(row, path)) return row[path];
  return path.split(".").reduce<JsonValue | undefined>(fieldOf, row);
}

function fieldOf(value: JsonValue | undefined, key: string): JsonValue | undefined {
  return isDataRow(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

function asText(value: JsonValue): string {
  if (typeof value === "string") return value;
  const isTexts = Array.isArray(value) && value.every((item) => typeof item === "string");
  return isTexts ? value.join("\n") : JSON.stringify(value);
}
