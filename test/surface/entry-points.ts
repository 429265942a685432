/** The entry points of the package, as package.json names them, with the source each is compiled from. */
import { readFileSync } from "node:fs";

export interface EntryPoint {
  /** What one imports: "reroll", "reroll/torch". */
  readonly name: string;
  readonly source: string;
}

export const entryPoints: readonly EntryPoint[] = readEntryPoints();

function readEntryPoints(): readonly EntryPoint[] {
  const { exports }: { exports: Record<string, string | { default: string }> } = JSON.parse(
    readFileSync("package.json", "utf8"),
  );
  return Object.entries(exports).flatMap(([path, target]) => {
    if (typeof target === "string") return [];
    const source = target.default.replace(/^\.\/dist\/(.*)\.js$/, "src/$1.ts");
    return [{ name: path.replace(".", "reroll"), source }];
  });
}
