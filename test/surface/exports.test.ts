/** What `import ... from "reroll"` offers changes only on purpose: `npx vitest run test/surface -u` writes the new list. */
import ts from "typescript";
import { expect, test } from "vitest";

test("the exported names, values and types, are those of exports.txt", async () => {
  const config = ts.getParsedCommandLineOfConfigFile(
    "tsconfig.json",
    {},
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic() {} },
  );
  const program = ts.createProgram(["src/index.ts"], { ...config?.options, noEmit: true, incremental: false });
  const checker = program.getTypeChecker();
  const names = (symbol: ts.Symbol): string[] =>
    checker.getExportsOfModule(symbol).flatMap((exported) => {
      const target = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
      const isModule = (target.flags & ts.SymbolFlags.ValueModule) !== 0;
      if (isModule) return names(target).map((name) => `${exported.name}.${name}`);
      return target.flags & ts.SymbolFlags.Value ? exported.name : `type ${exported.name}`;
    });
  const root = checker.getSymbolAtLocation(program.getSourceFile("src/index.ts")!)!;
  const sorted = names(root).sort((left, right) => (left.replace("type ", "") < right.replace("type ", "") ? -1 : 1));
  expect(new Set(sorted).size).toBe(sorted.length);
  await expect(`${sorted.join("\n")}\n`).toMatchFileSnapshot("exports.txt");
}, 120_000);
