/**
 * The text of an operator's schema, as libtorch prints it, to its name and parameters.
 */
import { splitTopLevel } from "../../scripts/generate/operator-types/split-top-level.ts";

export interface SchemaParameter {
  readonly name: string;
  /** Without alias annotations and the question mark: `Tensor`, `int[2]`, `Tensor?[]`. */
  readonly type: string;
  readonly isOptional: boolean;
  readonly hasDefault: boolean;
}

export interface Schema {
  /** As dynamicOp takes it: `aten::add.Tensor`. */
  readonly name: string;
  readonly parameters: readonly SchemaParameter[];
}

export function parseSchema(text: string): Schema {
  const open = text.indexOf("(");
  const parts = splitTopLevel(text.slice(open + 1, matchingParenthesis(text, open)));
  return { name: text.slice(0, open), parameters: parts.filter(isParameter).map(parseParameter) };
}

function isParameter(part: string): boolean {
  return part !== "" && part !== "*" && part !== "...";
}

// "Tensor(a!)? self", "int[2] stride=1", "*, str reduce=\"mean\""
function parseParameter(part: string): SchemaParameter {
  const [declaration = "", fallback] = part.split(/=(.*)/s);
  const space = declaration.lastIndexOf(" ");
  const type = declaration
    .slice(0, space)
    .replaceAll(/\([a-z!|* >-]*\)/g, "")
    .trim();
  return {
    name: declaration.slice(space + 1),
    type: type.endsWith("?") ? type.slice(0, -1) : type,
    isOptional: type.endsWith("?"),
    hasDefault: fallback !== undefined,
  };
}

function matchingParenthesis(text: string, open: number): number {
  let depth = 0;
  for (let i = open; i < text.length; i++) {
    if (text[i] === "(") depth++;
    else if (text[i] === ")" && --depth === 0) return i;
  }
  throw new Error(`unbalanced schema: ${text}`);
}
