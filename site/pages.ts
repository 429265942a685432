/**
 * Which page of the site each file of the repository becomes, and the links between them.
 *
 * The site is made of the Markdown that GitHub shows: docs/ is its root, a few files from elsewhere join it, and examples become
 * pages of code. Links are written for GitHub, relative to the file; here they are turned to pages.
 */
import { posix } from "node:path";

/** Files outside docs/ that are pages. */
const others: Readonly<Record<string, string>> = {
  "README.md": "index.md",
  "docs/README.md": "contents.md",
  "docs/decisions": "decisions/index.md",
  "bench/README.md": "benchmarks.md",
  "CONTRIBUTING.md": "contributing.md",
  "CHANGELOG.md": "changelog.md",
  "SECURITY.md": "security.md",
  examples: "examples/index.md",
};

/** The page of a file or folder of the repository; null for what the site does not have. */
export function pageOf(path: string): string | null {
  const own = others[path];
  if (own !== undefined) return own;
  if (path.startsWith("docs/")) return path.slice("docs/".length);
  if (/^examples\/.*\.(ts|mjs|py)$/.test(path)) return `${path}.md`;
  // A folder of examples is a heading of their page.
  if (/^examples\/[\w/-]+$/.test(path)) return `examples/index.md#${slugOf(path.slice("examples/".length))}`;
  return null;
}

/** Markdown with links of the repository turned to links of the site. Throws for one that leads to no page. */
export function toSiteLinks(path: string, markdown: string): string {
  const from = pageOf(path) ?? "";
  return outsideCode(markdown, (text) =>
    text.replace(/\]\(([^)\s]+)\)/g, (whole: string, link: string) => {
      if (/^[a-z]+:/.test(link) || link.startsWith("#")) return whole;
      const [file = "", anchor] = link.split("#");
      const target = posix.join(posix.dirname(path), file).replace(/\/$/, "");
      const page = pageOf(target);
      if (page === null)
        throw new Error(`${path} links to ${target}, which is no page of the site. Name it in site/pages.ts.`);
      if (page.startsWith("images/")) return `](/${page})`;
      const [to = "", ownAnchor] = page.split("#");
      const relative = posix.relative(posix.dirname(from), to);
      const hash = anchor ?? ownAnchor;
      return `](${relative.startsWith(".") ? relative : `./${relative}`}${hash === undefined ? "" : `#${hash}`})`;
    }),
  );
}

/** The anchor of a heading, as GitHub makes it. */
export function slugOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_\- ]/gu, "")
    .replaceAll(" ", "-");
}

/** A group of the sidebar, and its entries. */
export interface SidebarGroup {
  readonly text: string;
  readonly items: { readonly text: string; readonly link: string }[];
}

/**
 * The sidebar, from the list of documents in docs/README.md: its bold lines are groups, and the links at the start of each entry are
 * pages, in that order.
 */
export function sidebarOf(contents: string): SidebarGroup[] {
  const groups: SidebarGroup[] = [];
  for (const line of contents.split("\n")) {
    const [, title] = line.match(/^\*\*(.+)\*\*$/) ?? [];
    if (title !== undefined) groups.push({ text: title, items: [] });
    if (!line.startsWith("- ")) continue;
    for (const [, text = "", link = ""] of line.matchAll(/\[([^\]]+)\]\(([^)]+)\)/g)) {
      const [file = "", anchor] = link.split("#");
      const page = pageOf(posix.join("docs", file).replace(/\/$/, ""));
      if (page === null) continue;
      const target = `/${page.replace(/(^|\/)index\.md$/, "$1").replace(/\.md$/, "")}`;
      const name = text.charAt(0).toUpperCase() + text.slice(1);
      groups.at(-1)?.items.push({ text: name, link: anchor === undefined ? target : `${target}#${anchor}` });
    }
  }
  return groups;
}

/** Applies `change` to the parts of a Markdown text that are neither fenced nor inline code. */
function outsideCode(markdown: string, change: (text: string) => string): string {
  return markdown
    .split(/(^```[\s\S]*?^```|`[^`\n]+`)/m)
    .map((part, i) => (i % 2 === 0 ? change(part) : withoutBraces(part)))
    .join("");
}

/** Vue reads two braces as the start of an expression, also where they are a short piece of code. */
function withoutBraces(code: string): string {
  if (code.startsWith("```") || !code.includes("{{")) return code;
  const text = code.slice(1, -1).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("{", "&#123;");
  return `<code>${text}</code>`;
}
