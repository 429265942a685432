/** The table of error codes is kept: nothing in it that nobody throws, one meaning each, in whole sentences. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { errorCodes, toErrorCode } from "../../src/errors/error-codes.ts";

const codes = Object.values(errorCodes).flatMap((area) => Object.keys(area));
const meanings = Object.values(errorCodes).flatMap((area) => Object.values(area));

test("every code is thrown by the source or the native addon", () => {
  const text = ["src", "native/src"].map(sourceOf).join("\n");
  expect(codes.filter((code) => !text.includes(`"${code}"`))).toEqual([]);
});

test("every code stands once and has a meaning of its own, in a sentence", () => {
  expect(new Set(codes).size).toBe(codes.length);
  expect(new Set(meanings).size).toBe(meanings.length);
  expect(meanings.filter((meaning) => !/^[A-Zl].*\.$/.test(meaning))).toEqual([]);
});

test("a code from elsewhere that the table does not have becomes INTERNAL", () => {
  expect(toErrorCode("TORCH")).toBe("TORCH");
  expect(toErrorCode("FROM_THE_FUTURE")).toBe("INTERNAL");
});

function sourceOf(folder: string): string {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return files
    .filter((file) => /\.(ts|cc|h)$/.test(file) && !/\.test\.ts$|error-codes\.ts$/.test(file))
    .map((file) => readFileSync(join(folder, file), "utf8"))
    .join("\n");
}
