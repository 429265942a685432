/** The text that Python's `str` gives for plain data, which is what Jinja writes where a template asks for the text of a value. */

/** As in `{'a': [1, True, None]}`. */
export function pythonText(value: unknown): string {
  return typeof value === "string" ? value : literal(value);
}

function literal(value: unknown): string {
  if (typeof value === "string") return quoted(value);
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value)
      .map(([key, inner]) => `${quoted(key)}: ${literal(inner)}`)
      .join(", ")}}`;
  }
  return String(value);
}

/** In single quotes, unless the text has those and no double ones. */
function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text
    .replaceAll("\\", "\\\\")
    .replaceAll("\n", "\\n")
    .replaceAll("\r", "\\r")
    .replaceAll("\t", "\\t")
    .replaceAll(quote, `\\${quote}`);
  return quote + escaped + quote;
}
