/** What README, docs and examples name is there: exports that they import, and files that they link to. */
import { existsSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const texts = await readAll(["README.md", "CONTRIBUTING.md", "bench/README.md", "docs", "examples"]);

test('every name that is imported from "reroll" is exported', () => {
  const exported = new Set(
    readFileSync("test/surface/exports.txt", "utf8")
      .split("\n")
      .map((line) => line.replace("type ", "").split(".")[0]),
  );
  const named = texts.flatMap(({ path, text }) =>
    [...text.matchAll(/\b(?:import|export)\s+(?:type\s+)?\{([^}]*)\}\s+from\s+"reroll"/g)].flatMap(([, names]) =>
      names!
        .split(",")
        .map(
          (name) =>
            name
              .trim()
              .replace(/^type /, "")
              .split(" as ")[0]!,
        )
        .filter((name) => name !== "")
        .map((name) => ({ path, name })),
    ),
  );
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter(({ name }) => !exported.has(name))).toEqual([]);
});

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
  const paths = found.flat().filter((path) => /\.(md|ts)$/.test(path));
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
