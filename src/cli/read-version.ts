/** The version of this package. */
import { readFileSync } from "node:fs";

/** The version in package.json, which is two folders up from both src/cli and dist/cli. */
export function readVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  const { version }: { version: string } = JSON.parse(text);
  return version;
}
