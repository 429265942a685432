/** What README and docs link to is there, on GitHub and on the site that is built of them. */
import { existsSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { pageOf, sidebarOf, slugOf, toSiteLinks } from "../../site/pages.ts";

const outside = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "bench/README.md"];
const texts = await readAll([...outside, "docs", "examples"]);
const documents = texts.filter(({ path }) => path.endsWith(".md"));

test("every link to a file or a heading leads somewhere", () => {
  const headings = new Map(texts.map(({ path, text }) => [path, new Set(anchorsOf(text))]));
  const links = documents
    .flatMap(({ path, text }) =>
      [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => ({ path, link: link! })),
    )
    .filter(({ link }) => !/^[a-z]+:/.test(link));
  expect(links.length).toBeGreaterThan(20);
  const broken = links.filter(({ path, link }) => {
    const [file, anchor] = link.split("#") as [string, string?];
    const target = file === "" ? path : join(dirname(path), file);
    return !existsSync(target) || (anchor !== undefined && headings.get(target)?.has(anchor) !== true);
  });
  expect(broken).toEqual([]);
});

test("every link leads to a page of the site", () => {
  const pages = documents.filter(({ path }) => path.startsWith("docs/") || outside.includes(path));
  expect(pages.length).toBeGreaterThan(40);
  for (const { path, text } of pages) expect(() => toSiteLinks(path, text)).not.toThrow();
  expect(toSiteLinks("docs/guides/data.md", "[a](../../README.md#measured) `[b](c.md)` ![d](../images/path.svg)")).toBe(
    "[a](../index.md#measured) `[b](c.md)` ![d](/images/path.svg)",
  );
  expect(() => toSiteLinks("README.md", "[a](src/index.ts)")).toThrow("src/index.ts, which is no page of the site");
});

test("the site's sidebar names every page of docs", () => {
  const groups = sidebarOf(readFileSync("docs/README.md", "utf8"));
  const named = new Set(groups.flatMap(({ items }) => items.map(({ link }) => link.split("#")[0])));
  const isNamedElsewhere = (path: string) => path === "docs/README.md" || path.startsWith("docs/decisions/");
  const pages = documents.filter(({ path }) => path.startsWith("docs/") && !isNamedElsewhere(path));
  expect(pages.map(({ path }) => `/${pageOf(path)!.replace(/\.md$/, "")}`).filter((page) => !named.has(page))).toEqual(
    [],
  );
  expect(named).toContain("/decisions/");
});

test("lock files name no place to download from", () => {
  for (const lock of ["package-lock.json", "site/package-lock.json"]) {
    expect(readFileSync(lock, "utf8")).not.toContain('"resolved"');
  }
});

async function readAll(
  places: readonly string[],
): Promise<readonly { readonly path: string; readonly text: string }[]> {
  const found = await Promise.all(
    places.map(async (place) =>
      place.endsWith(".md") ? [place] : (await readdir(place, { recursive: true })).map((name) => join(place, name)),
    ),
  );
  const paths = found.flat().filter((path) => /\.(md|ts)$/.test(path) && !path.includes("node_modules"));
  return paths.map((path) => ({ path, text: readFileSync(path, "utf8") }));
}

function withoutCode(text: string): string {
  return text.replace(/^```[\s\S]*?^```/gm, "").replace(/`[^`\n]*`/g, "");
}

/** As GitHub makes them from headings: the second of one name ends in -1, the third in -2. */
function anchorsOf(text: string): readonly string[] {
  const seen = new Map<string, number>();
  return [...text.replace(/^```[\s\S]*?^```/gm, "").matchAll(/^#+ (.+)$/gm)].map(([, heading]) => {
    const slug = slugOf(heading!);
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  });
}
