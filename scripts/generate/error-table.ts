/** docs/reference/errors.md: every error code with its meaning, from the table in src/errors/error-codes.ts. */
import { errorCodes } from "../../src/errors/error-codes.ts";

/** The text of docs/reference/errors.md. */
export function errorReference(): string {
  return `${[
    "<!-- Made by `npm run generate` from src/errors/error-codes.ts. Do not edit. -->",
    "# Errors",
    "reroll throws one class, `RerollError`. Its `code` is one of these and stays the same between releases; its `message` says what " +
      "is wrong, what was given, what is allowed and what to do; its `details` hold the values that the message talks about.",
    ...Object.entries(errorCodes).flatMap(([area, codes]) => [
      `## ${area}`,
      [
        "| code | meaning |",
        "|---|---|",
        ...Object.entries(codes).map(([code, meaning]) => `| \`${code}\` | ${meaning} |`),
      ].join("\n"),
    ]),
  ].join("\n\n")}\n`;
}
