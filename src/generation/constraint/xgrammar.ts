/**
 * The package that follows grammars, @mlc-ai/web-xgrammar: WebAssembly, an optional peer, loaded at the first constrained request.
 *
 * Its file is a script that calls itself a module, which Node cannot import. It is run as the script it is, and without `process`: it
 * then takes nothing from this program and leaves nothing in it, no handler of errors either.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { compileFunction } from "node:vm";
import { expectPackage } from "../../errors/optional-package.ts";

/** The part of the package that is used here. */
export interface XGrammar {
  readonly TokenizerInfo: {
    createTokenizerInfo(
      vocabulary: readonly string[],
      kind: "byte_level",
      prependsSpace: boolean,
      vocabularySize: number,
      stopIds: readonly number[],
    ): Promise<Disposable>;
  };
  readonly GrammarCompiler: {
    createGrammarCompiler(info: Disposable, isCached: boolean): Promise<GrammarCompiler>;
  };
  readonly GrammarMatcher: {
    createGrammarMatcher(compiled: Disposable, stopIds: number[]): Promise<GrammarMatcher>;
  };
}

interface Disposable {
  dispose(): void;
}

export interface GrammarCompiler extends Disposable {
  compileGrammar(rules: string): Promise<CompiledGrammar>;
  compileStructuralTag(tag: object): Promise<CompiledGrammar>;
}

export type CompiledGrammar = Disposable;

export interface GrammarMatcher extends Disposable {
  /** False where the grammar does not allow the token. */
  acceptToken(tokenId: number): boolean;
  /** One bit per token, set where it is allowed. */
  getNextTokenBitmask(): Promise<Int32Array>;
}

const PACKAGE = "@mlc-ai/web-xgrammar";

export function loadXGrammar(): XGrammar {
  expectPackage(PACKAGE, "Structured output");
  const file = createRequire(import.meta.url).resolve(PACKAGE);
  const module = { exports: {} };
  const run = compileFunction(readFileSync(file, "utf8"), ["exports", "module", "process", "location"], {
    filename: file,
  });
  Reflect.apply(run, module.exports, [module.exports, module, undefined, { href: "file:///" }]);
  return module.exports as XGrammar;
}
