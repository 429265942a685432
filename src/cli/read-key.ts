/** The API key of a server, from a flag or from a file. */
import { readFileSync } from "node:fs";
import { RerollError } from "../errors/reroll-error.ts";

interface KeyFlags {
  readonly apiKey?: string;
  readonly apiKeyFile?: string;
}

export function readKey({ apiKey, apiKeyFile }: KeyFlags): string | undefined {
  if (apiKeyFile === undefined) return apiKey;
  try {
    return readFileSync(apiKeyFile, "utf8").trim();
  } catch (cause) {
    throw new RerollError(
      "FILE_INVALID",
      `--api-key-file ${apiKeyFile} cannot be read: ${String(cause)}.`,
      {},
      { cause },
    );
  }
}
