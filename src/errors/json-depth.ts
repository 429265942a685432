/**
 * What people and models write nests a dozen levels. Code that walks a value step by step, such as `JSON.stringify` or a
 * template, runs out of stack at some thousands.
 */
export const MAX_JSON_DEPTH = 128;

/**
 * The deepest nesting of arrays and objects in a JSON text, without parsing it; a guess when the text is not JSON.
 * Ask before `JSON.parse` on a text that may be hostile: 100 MB of "[" take 5 GB and 20 s to parse.
 */
export function jsonDepth(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (let position = 0; position < text.length; position++) {
    const character = text[position];
    if (character === '"') position = endOfString(text, position);
    else if (character === "[" || character === "{") deepest = Math.max(deepest, ++depth);
    else if (character === "]" || character === "}") depth--;
  }
  return deepest;
}

/** The position of the quote that closes the string opened at `start`, or the end of the text. */
function endOfString(text: string, start: number): number {
  let position = start + 1;
  while (position < text.length && text[position] !== '"') position += text[position] === "\\" ? 2 : 1;
  return position;
}
