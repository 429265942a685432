/** What README and docs link to is there. */
import { existsSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const texts = await readAll(["README.md", "CONTRIBUTING.md", "bench/README.md", "docs", "examples"]);

test("every link to a file or a heading leads somewhere", () => {
  const headings = new Map(texts.map(({ path, text }) => [path, new Set(anchorsOf(text))]));
  const links = texts
    .filter(({ path }) => path.endsWith(".md"))
    .flatMap(({ path, text }) =>
      [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => ({ path, link: link! })),
    )
    .filter(({ link }) => !/^[a-z]+:/.test(link));
  expect(links.length).toBeGreaterThan(20);
  const broken = links.filter(({ path, link }) => {
    const [file, anchor] = link.split("#") as [string, string?];
    const target = file === "" ? path : join(dirname(path), file);
    return !existsSync(target) || (anchor !== undefined && headings.get(target)?.has(anchor) === false);
  });
  expect(broken).toEqual([]);
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

/** As GitHub makes them from headings. */
function anchorsOf(text: string): readonly string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  );
}
