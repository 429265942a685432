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
import type { Grammar } from "./constraint.ts";

/** The part of the package that is used here. */
interface XGrammar {
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

interface GrammarCompiler extends Disposable {
  compileGrammar(rules: string): Promise<CompiledGrammar>;
  compileStructuralTag(tag: object): Promise<CompiledGrammar>;
}

export type CompiledGrammar = Disposable;

export interface GrammarMatcher extends Disposable {
  /** False where the grammar does not allow the token. */
  acceptToken(tokenId: number): boolean;
  /** Goes on by a text that is no token. False, and where it was, if the grammar does not allow it. */
  _acceptString(text: string): boolean;
  /** One bit per token, set where it is allowed. */
  getNextTokenBitmask(): Promise<Int32Array>;
}

const PACKAGE = "@mlc-ai/web-xgrammar";

function loadXGrammar(): XGrammar {
  expectPackage(PACKAGE, "Structured output");
  const file = createRequire(import.meta.url).resolve(PACKAGE);
  const module = { exports: {} };
  const run = compileFunction(readFileSync(file, "utf8"), ["exports", "module", "process", "location"], {
    filename: file,
  });
  Reflect.apply(run, module.exports, [module.exports, module, undefined, { href: "file:///" }]);
  return module.exports as XGrammar;
}

/** What the compiler knows of a model: plain data, for another thread too. */
export interface SpelledVocabulary {
  /** The bytes of each token: see token-spelling.ts. */
  readonly tokens: readonly string[];
  /** Number of scores: a model may have more of them than its tokenizer has tokens. */
  readonly numScores: number;
  readonly stopIds: readonly number[];
}

export interface OpenCompiler {
  readonly xgrammar: XGrammar;
  readonly compiler: GrammarCompiler;
}

/** A compiler with memory of its own: what breaks it leaves others alone. */
export async function openCompiler({ tokens, numScores, stopIds }: SpelledVocabulary): Promise<OpenCompiler> {
  const xgrammar = loadXGrammar();
  const info = await xgrammar.TokenizerInfo.createTokenizerInfo(tokens, "byte_level", false, numScores, stopIds);
  return { xgrammar, compiler: await xgrammar.GrammarCompiler.createGrammarCompiler(info, false) };
}

export function compileWith(compiler: GrammarCompiler, grammar: Grammar): Promise<CompiledGrammar> {
  if (grammar.kind === "rules") return compiler.compileGrammar(grammar.rules);
  const tags = grammar.tags.map(({ begin, rules, end }) => ({
    ...{ type: "tag", begin, end },
    content: { type: "grammar", grammar: rules },
  }));
  const format = {
    type: "triggered_tags",
    triggers: [grammar.trigger],
    tags,
    at_least_one: false,
    stop_after_first: true,
  };
  return compiler.compileStructuralTag({ type: "structural_tag", format });
}
