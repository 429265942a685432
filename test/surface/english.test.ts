/** Texts that users read stand on their own: option texts, descriptions of metrics, meanings of errors. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { metricTable } from "../../src/flow/metrics.ts";

/** Heads of sentences that lean on the name they describe. */
const LEANING = /^(Of|That of|Those of|Over which|The same|Its|Their|It|They) /;

/** Folders whose doc comments have yet to be read aloud. */
const UNREAD_FOLDERS = ["training"];

test("every option text stands on its own, from a capital, a number or a quoted value to a period", () => {
  const texts = describeTexts("src");
  expect(texts.length).toBeGreaterThan(300);
  expect(texts.flatMap(({ file, text }) => (isSentence(text) ? [] : [`${file}: ${text}`]))).toEqual([]);
});

test("every description of a metric stands on its own", () => {
  expect(
    [...metricTable].flatMap(([name, { meaning }]) => (isSentence(meaning) ? [] : [`${name}: ${meaning}`])),
  ).toEqual([]);
});

test("no doc comment leans on the name it documents", () => {
  const comments = readdirSync("src", { recursive: true, encoding: "utf8" })
    .filter((file) => !UNREAD_FOLDERS.some((folder) => file.startsWith(`${folder}/`)) && /(?<!\.test)\.ts$/.test(file))
    .flatMap((file) => {
      const found = readFileSync(join("src", file), "utf8").matchAll(/\/\*\*\s+(?:\* )?(.*)/g);
      return [...found].map(([, text = ""]) => ({ file, text }));
    });
  expect(comments.filter(({ text }) => /^(Of|That of|Those of|Over which) /.test(text))).toEqual([]);
});

test.each([
  ["Temperature the tokens were sampled with.", true],
  ['"cpu" or "cuda".', true],
  ["0 up to maxTokens.", true],
  ["That of sampling.", false],
  ["Over which the rate rises.", false],
  ["Learning rate", false],
  ["learning rate.", false],
])("%s: %s", (text, expected) => {
  expect(isSentence(text)).toBe(expected);
});

function isSentence(text: string): boolean {
  return /^[A-Z0-9"`{-]/.test(text) && text.endsWith(".") && !LEANING.test(text);
}

/** Arguments of tools are left out: a model reads those, and a change of theirs changes its prompts. */
function describeTexts(folder: string): { file: string; text: string }[] {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return files
    .filter((file) => file.endsWith(".ts") && !/\.test\.ts$|-tool\.ts$/.test(file))
    .flatMap((file) => {
      const source = readFileSync(join(folder, file), "utf8");
      const found = source.matchAll(/\.describe\(\s*(["'`])((?:\\.|(?!\1)[^\\])*)\1/g);
      return [...found].map(([, , text = ""]) => ({ file, text: text.replaceAll("\\", "") }));
    });
}
