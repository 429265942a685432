/**
 * The package that follows grammars, @mlc-ai/web-xgrammar: WebAssembly, an optional peer, loaded at the first constrained request.
 *
 * Its file is a script that calls itself a module, which Node cannot import. It is run as the script it is, and without `process`: it
 * then takes nothing from this program and leaves nothing in it, no handler of errors either.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { compileFunction } from "node:vm";
import { RerollError } from "../../errors/reroll-error.ts";

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
const VERSION = "0.1.27";

/** @param find where the package's file is, for tests */
export function loadXGrammar(find: () => string = () => createRequire(import.meta.url).resolve(PACKAGE)): XGrammar {
  const file = locate(find);
  const module = { exports: {} };
  const run = compileFunction(readFileSync(file, "utf8"), ["exports", "module", "process", "location"], {
    filename: file,
  });
  Reflect.apply(run, module.exports, [module.exports, module, undefined, { href: "file:///" }]);
  return module.exports as XGrammar;
}

function locate(find: () => string): string {
  try {
    return find();
  } catch (cause) {
    throw new RerollError(
      "PACKAGE_MISSING",
      `Structured output needs the package ${PACKAGE}, which is not installed. Run: npm install ${PACKAGE}@${VERSION}`,
      { name: PACKAGE },
      { cause },
    );
  }
}
