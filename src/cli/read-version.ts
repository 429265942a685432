/** The version of this package. */
import { readFileSync } from "node:fs";

/** As package.json states it, which lies two folders up from src/cli and from dist/cli. */
export function readVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  const { version }: { version: string } = JSON.parse(text);
  return version;
}
