/** What the built page weighs. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";

const built = fileURLToPath(new URL("../../dist/dashboard/app/", import.meta.url));
const sources = fileURLToPath(new URL("../../dashboard/src/", import.meta.url));

test("all scripts of the page are below 60 KB when compressed", () => {
  const scripts = readdirSync(built).filter((name) => name.endsWith(".mjs"));
  expect(scripts.length).toBeGreaterThan(0);
  const bytes = scripts.reduce((sum, name) => sum + gzipSync(readFileSync(built + name)).length, 0);
  expect(bytes).toBeLessThan(60_000);
});

test("no source hands text to the browser as markup", () => {
  const files = readdirSync(sources, { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name));
  expect(files.length).toBeGreaterThan(20);
  const markup = /dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(/;
  expect(files.filter((name) => markup.test(readFileSync(sources + name, "utf8")))).toEqual([]);
});
