/**
 * Guides: which tokens a reply may go on with, according to its grammar.
 *
 * In: constraints of requests. Out: one guide per request, a step ahead of its draws. Compiled grammars are kept and shared; the oldest
 * is forgotten first. Lives in the engine's thread, so that compiling holds up no other one; a grammar is compiled once, after it was
 * tried out elsewhere.
 *
 * A mask is ready one microtask after it was asked for, because that is how the package hands it over, and so before the next step, which
 * is a turn of the event loop away.
 */
import { byteLevelAlphabet } from "../../chat/tokenizer/decoding/byte-level-stage.ts";
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";
import { invariant, RerollError } from "../../errors/reroll-error.ts";
import { type Constraint, type Grammar, grammarOf } from "./constraint.ts";
import { GrammarTrial } from "./grammar-trial.ts";
import { hasInsideMark } from "./json-schema-grammar.ts";
import { INSIDE_MARK, ReplyPosition } from "./reply-position.ts";
import { SharedMasks } from "./shared-masks.ts";
import { lengthBounds, TokenLengths } from "./string-lengths.ts";
import { spellVocabulary } from "./token-spelling.ts";
import { type CompiledGrammar, compileWith, type GrammarMatcher, type OpenCompiler, openCompiler } from "./xgrammar.ts";

/** Compiled grammars that are kept. One takes a few megabytes with a large vocabulary. */
const MAX_COMPILED = 64;

interface Loaded extends OpenCompiler {
  readonly trial: GrammarTrial;
  readonly lengths: TokenLengths;
  /** Tokens with the mark of strings in them. */
  readonly markIds: readonly number[];
}

interface Entry {
  readonly compiled: Promise<CompiledGrammar>;
  /** Requests that are about to make a guide from it. */
  numUsers: number;
  isForgotten: boolean;
}

export class Guides {
  readonly #tokenizer: Tokenizer;
  /** Number of scores: a model may have more of them than its tokenizer has tokens. */
  readonly #numScores: number;
  readonly #entries = new Map<string, Entry>();
  readonly #shared = new SharedMasks();
  #loaded: Promise<Loaded> | undefined;

  constructor(tokenizer: Tokenizer, numScores: number) {
    this.#tokenizer = tokenizer;
    this.#numScores = numScores;
  }

  /** Rejects with INVALID_REQUEST for a constraint that cannot be enforced. @param stopIds what ends the reply */
  async open(constraint: Constraint, stopIds: readonly number[]): Promise<Guide> {
    if (stopIds.length === 0) {
      throw new RerollError(
        "INVALID_REQUEST",
        "A reply with a constraint needs stopIds: it could not end otherwise. Leave ignore_eos out.",
      );
    }
    const grammar = grammarOf(constraint);
    this.#loaded ??= this.#load();
    const loaded = await this.#loaded;
    const { xgrammar } = loaded;
    const entry = this.#entryOf(grammar, loaded);
    entry.numUsers++;
    try {
      const compiled = await entry.compiled;
      const matcher = await xgrammar.GrammarMatcher.createGrammarMatcher(compiled, [...stopIds]);
      const guide = new Guide(matcher, stopIds, this.#shared, positionIn(grammar, constraint, matcher, loaded));
      await guide.ready;
      return guide;
    } finally {
      entry.numUsers--;
      freeUnused(entry);
    }
  }

  /** Ends the thread that tries grammars out. Guides that were made stay good. */
  async close(): Promise<void> {
    await (await this.#loaded?.catch(() => undefined))?.trial.close();
  }

  async #load(): Promise<Loaded> {
    const { stopIds } = this.#tokenizer;
    const tokens = spellVocabulary(this.#tokenizer);
    const vocabulary = { tokens, numScores: this.#numScores, stopIds };
    const spelledMark = byteLevelAlphabet()[INSIDE_MARK.charCodeAt(0)]!;
    return {
      ...(await openCompiler(vocabulary)),
      trial: new GrammarTrial(vocabulary),
      lengths: new TokenLengths(tokens, this.#numScores),
      markIds: tokens.flatMap((token, id) => (token.includes(spelledMark) ? [id] : [])),
    };
  }

  #entryOf(grammar: Grammar, { compiler, trial }: Loaded): Entry {
    const key = JSON.stringify(grammar);
    const entry = this.#entries.get(key) ?? {
      compiled: trial.run(grammar).then(() => compileWith(compiler, grammar)),
      numUsers: 0,
      isForgotten: false,
    };
    // Insertion order is the order of last use.
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    const [oldest] = this.#entries;
    if (this.#entries.size > MAX_COMPILED && oldest !== undefined) {
      this.#entries.delete(oldest[0]);
      oldest[1].isForgotten = true;
      freeUnused(oldest[1]);
    }
    return entry;
  }
}

/** Guides that were made from it keep what they need. */
function freeUnused({ compiled, numUsers, isForgotten }: Entry): void {
  // One that was refused has nothing to free.
  if (isForgotten && numUsers === 0)
    void compiled.then(
      (grammar) => grammar.dispose(),
      () => {},
    );
}

/** What tells where a reply stands without asking the matcher; null where nothing does. */
function positionIn(grammar: Grammar, { kind }: Constraint, matcher: GrammarMatcher, { lengths, markIds }: Loaded) {
  if (kind === "regex" || kind === "choice") return null;
  const rules = grammar.kind === "rules" ? grammar.rules : grammar.tags.map((tag) => tag.rules).join("\n");
  return new ReplyPosition(matcher, lengths, {
    trigger: grammar.kind === "tagged" ? grammar.trigger : undefined,
    bounds: lengthBounds(rules),
    markIds: hasInsideMark(rules) ? markIds : undefined,
  });
}

/** One reply on its way through its grammar. */
export class Guide {
  readonly #matcher: GrammarMatcher;
  readonly #stopIds: ReadonlySet<number>;
  readonly #shared: SharedMasks;
  readonly #position: ReplyPosition | null;
  #mask: Int32Array | null = null;
  #failure: unknown;
  #prepared: Promise<void>;

  constructor(
    matcher: GrammarMatcher,
    stopIds: readonly number[],
    shared: SharedMasks,
    position: ReplyPosition | null,
  ) {
    this.#matcher = matcher;
    this.#stopIds = new Set(stopIds);
    this.#shared = shared;
    this.#position = position;
    this.#prepared = this.#prepare();
  }

  /** When the first mask is there. */
  get ready(): Promise<void> {
    return this.#prepared;
  }

  /** One bit per score, set where the token may come next. Nobody changes it: others may hold the same one. */
  get mask(): Int32Array {
    if (this.#failure !== undefined) throw this.#failure;
    invariant(this.#mask !== null, "the mask of a draw is ready before the draw");
    return this.#mask;
  }

  /** Whether no token may come next: the vocabulary cannot write what the grammar asks for. */
  get isStuck(): boolean {
    return this.mask.every((bits) => bits === 0);
  }

  /** Goes on by a token that was drawn. The mask of the next one is there at once, or follows in a microtask. */
  accept(tokenId: number): void {
    if (this.#position !== null) this.#position.accept(tokenId);
    else invariant(this.#matcher.acceptToken(tokenId), "a token that the mask allowed fits the grammar");
    this.#mask = this.#position?.mask ?? null;
    // What ends the reply ends the grammar: it has no next mask.
    if (this.#mask === null && !this.#stopIds.has(tokenId)) this.#prepared = this.#prepare();
  }

  /** Frees it once the package is done with it. */
  dispose(): void {
    void this.#prepared.then(() => this.#matcher.dispose());
  }

  async #prepare(): Promise<void> {
    try {
      const mask = await this.#matcher.getNextTokenBitmask();
      this.#mask = this.#position?.maskFrom(mask, (one) => this.#shared.share(one)) ?? mask;
    } catch (cause) {
      // Whoever draws next is told.
      this.#failure = cause;
    }
  }
}
