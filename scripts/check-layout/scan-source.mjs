/**
 * Reads TypeScript without a parser, as far as the layout rules need it.
 *
 * `blankSource` replaces comments, regular expressions and the inside of strings by spaces of the same length, so a
 * position in the result is a position in the file. `findImports` lists what a file imports, statically or dynamically.
 */

/** A slash after one of these starts a regular expression and not a division. */
const BEFORE_REGEX =
  /(?:^|[(,=:[!&|?{};+\-*%<>~^]|\b(?:return|typeof|case|in|of|delete|void|throw|new|await|yield))\s*$/;

/** What stands between `import` or `export` and the `from` at the end of the text. */
const CLAUSE = /[\s\S]*\b(?:import|export)\s+([^"'`;]*)$/;
const LONGEST_IMPORT = 4_000;

export function blankSource(text) {
  let blanked = "";
  let position = 0;
  // For each open template literal, the number of braces open inside its current ${...}.
  const templates = [];
  const keep = (length) => {
    blanked += text.slice(position, position + length);
    position += length;
  };
  const blankTo = (end) => {
    blanked += text.slice(position, end).replace(/[^\n]/g, " ");
    position = end;
  };
  const readTemplate = () => {
    const end = endOf(/`|\$\{/g, text, position);
    blankTo(end.start);
    if (end.match === "${") templates.push(0);
    keep(end.match.length);
  };
  while (position < text.length) {
    const character = text[position];
    if (text.startsWith("//", position)) blankTo(endOf(/\n|$/g, text, position).start);
    else if (text.startsWith("/*", position)) blankTo(endOf(/\*\//g, text, position + 2).end);
    else if (character === '"' || character === "'") {
      keep(1);
      blankTo(endOf(character === '"' ? /["\n]/g : /['\n]/g, text, position).start);
      keep(1);
    } else if (character === "`") {
      keep(1);
      readTemplate();
    } else if (character === "/" && BEFORE_REGEX.test(blanked.slice(-40))) {
      blankTo(endOfRegex(text, position));
    } else {
      const isTemplate = templates.length > 0;
      if (isTemplate && character === "{") templates[templates.length - 1]++;
      if (isTemplate && character === "}" && templates[templates.length - 1]-- === 0) {
        templates.pop();
        keep(1);
        readTemplate();
      } else keep(1);
    }
  }
  return blanked;
}

/**
 * Each import as `{ specifier, position, isTypeOnly, names }`. Specifiers put together at run time are left out. `names` are those the
 * other file exports, null where all of them may be meant: a namespace, `export *`, a dynamic import.
 */
export function findImports(text, blanked) {
  const openings = blanked.matchAll(/(?<![.\w$])(?:from|import)\s*\(?\s*(["'`])/g);
  return [...openings].flatMap((match) => {
    const start = match.index + match[0].length;
    const specifier = text.slice(start, text.indexOf(match[1], start));
    if (specifier.includes("${")) return [];
    const isFrom = match[0].startsWith("from");
    const before = isFrom ? blanked.slice(Math.max(0, match.index - LONGEST_IMPORT), match.index) : "";
    const clause = CLAUSE.exec(before)?.[1];
    const names = isFrom ? listedNames(clause ?? "") : match[0].includes("(") ? null : [];
    return [{ specifier, position: match.index, isTypeOnly: /^type\b/.test(clause ?? ""), names }];
  });
}

/** The names in the braces of an import or export, as their own file calls them; null without braces. */
export function listedNames(clause) {
  const list = /\{([^}]*)\}/.exec(clause)?.[1];
  if (list === undefined) return null;
  const items = list.split(",").map((item) => item.trim());
  return items.filter((item) => item !== "").map((item) => item.replace(/^type\s+/, "").split(/\s+as\s+/)[0]);
}

export function lineAt(text, position) {
  return text.slice(0, position).split("\n").length;
}

/** Where a pattern next matches outside an escape; the end of the text when it does not. */
function endOf(pattern, text, from) {
  pattern.lastIndex = from;
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    if (!isEscaped(text, match.index, from)) {
      return { start: match.index, end: match.index + match[0].length, match: match[0] };
    }
  }
  return { start: text.length, end: text.length, match: "" };
}

function isEscaped(text, position, from) {
  let slashes = 0;
  while (position - slashes - 1 >= from && text[position - slashes - 1] === "\\") slashes++;
  return slashes % 2 === 1;
}

function endOfRegex(text, from) {
  let isInClass = false;
  for (let position = from + 1; position < text.length; position++) {
    const character = text[position];
    if (character === "\\") position++;
    else if (character === "\n") return position;
    else if (character === "[") isInClass = true;
    else if (character === "]") isInClass = false;
    else if (character === "/" && !isInClass) return position + 1;
  }
  return text.length;
}
