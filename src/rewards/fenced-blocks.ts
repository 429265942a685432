/** The fenced blocks of a Markdown text. */

interface FencedBlock {
  /** The word after the opening fence, in lower case. */
  readonly name: string;
  readonly code: string;
}

const FENCE = /^[ \t]*(`{3,}|~{3,})[ \t]*([^\s`]*)/;

/**
 * In order. A block ends at a line that starts with its fence, or with the text. Looks at each line once: a pattern over the whole
 * text takes minutes for one that is all tildes.
 */
export function fencedBlocks(text: string): FencedBlock[] {
  const blocks: FencedBlock[] = [];
  let open: { readonly fence: string; readonly name: string; readonly start: number } | null = null;
  for (let at = 0, next = 0; at < text.length; at = next) {
    const end = text.indexOf("\n", at);
    next = end === -1 ? text.length : end + 1;
    const [, fence, name = ""] = FENCE.exec(text.slice(at, next)) ?? [];
    if (fence === undefined) continue;
    if (open === null) {
      if (end !== -1) open = { fence, name: name.toLowerCase(), start: next };
    } else if (fence.startsWith(open.fence)) {
      blocks.push({ name: open.name, code: text.slice(open.start, at) });
      open = null;
    }
  }
  if (open !== null) blocks.push({ name: open.name, code: text.slice(open.start) });
  return blocks;
}
