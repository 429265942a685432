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
import { GrammarStates } from "./grammar-states.ts";
import { GrammarTrial } from "./grammar-trial.ts";
import { hasInsideMark } from "./json-schema-grammar.ts";
import { type GrammarParts, type GrammarPlaces, INSIDE_MARK, ReplyPosition } from "./reply-position.ts";
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
  readonly parts: GrammarParts;
  /** Requests that are about to make a guide from it. */
  numUsers: number;
  isForgotten: boolean;
}

export class Guides {
  readonly #tokenizer: Tokenizer;
  /** Number of scores: a model may have more of them than its tokenizer has tokens. */
  readonly #numScores: number;
  /** By the constraint, as JSON. */
  readonly #entries = new Map<string, Entry>();
  readonly #masks = new SharedMasks();
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
    const key = JSON.stringify(constraint);
    // Before anything is loaded: what cannot be enforced is refused at once.
    const grammar = this.#entries.has(key) ? undefined : grammarOf(constraint);
    const loaded = await this.#loadOnce();
    const entry = this.#entries.get(key) ?? this.#newEntry(grammar ?? grammarOf(constraint), constraint, loaded);
    this.#use(key, entry);
    entry.numUsers++;
    try {
      const compiled = await entry.compiled;
      const matcher = await loaded.xgrammar.GrammarMatcher.createGrammarMatcher(compiled, [...stopIds]);
      const guide = new Guide(matcher, stopIds, entry.parts);
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

  /** What could not be loaded is tried again by the next request: the package may be installed while the engine runs. */
  #loadOnce(): Promise<Loaded> {
    this.#loaded ??= this.#load().catch((cause: unknown) => {
      this.#loaded = undefined;
      throw cause;
    });
    return this.#loaded;
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

  #newEntry(grammar: Grammar, constraint: Constraint, { compiler, trial, lengths, markIds }: Loaded): Entry {
    return {
      compiled: trial.run(grammar).then(() => compileWith(compiler, grammar)),
      parts: {
        places: placesIn(grammar, constraint, markIds),
        states: new GrammarStates(),
        lengths,
        masks: this.#masks,
      },
      numUsers: 0,
      isForgotten: false,
    };
  }

  /** Insertion order is the order of last use. */
  #use(key: string, entry: Entry): void {
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    const [oldest] = this.#entries;
    if (this.#entries.size > MAX_COMPILED && oldest !== undefined) {
      this.#entries.delete(oldest[0]);
      oldest[1].isForgotten = true;
      freeUnused(oldest[1]);
    }
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

function placesIn(grammar: Grammar, { kind }: Constraint, markIds: readonly number[]): GrammarPlaces {
  const isJson = kind !== "regex" && kind !== "choice";
  const rules = grammar.kind === "rules" ? grammar.rules : grammar.tags.map((tag) => tag.rules).join("\n");
  return {
    trigger: grammar.kind === "tagged" ? Buffer.from(grammar.trigger).toString("latin1") : undefined,
    bounds: isJson ? lengthBounds(rules) : [],
    markIds: isJson && hasInsideMark(rules) ? markIds : undefined,
  };
}

/** One reply on its way through its grammar. */
export class Guide {
  readonly #matcher: GrammarMatcher;
  readonly #stopIds: ReadonlySet<number>;
  readonly #position: ReplyPosition;
  #mask: Int32Array | undefined;
  #failure: unknown;
  #prepared = Promise.resolve();

  constructor(matcher: GrammarMatcher, stopIds: readonly number[], parts: GrammarParts) {
    this.#matcher = matcher;
    this.#stopIds = new Set(stopIds);
    this.#position = new ReplyPosition(matcher, parts, stopIds);
    this.#prepare();
  }

  /** When the first mask is there. */
  get ready(): Promise<void> {
    return this.#prepared;
  }

  /** One bit per score, set where the token may come next. Nobody changes it: others may hold the same one. */
  get mask(): Int32Array {
    if (this.#failure !== undefined) throw this.#failure;
    invariant(this.#mask !== undefined, "the mask of a draw is ready before the draw");
    return this.#mask;
  }

  /** Whether no token may come next: the vocabulary cannot write what the grammar asks for. */
  get isStuck(): boolean {
    return this.mask.every((bits) => bits === 0);
  }

  /** Goes on by a token that was drawn. The mask of the next one is there at once, or follows in a microtask. */
  accept(tokenId: number): void {
    this.#mask = undefined;
    // What ends the reply ends the grammar: it has no next mask.
    if (this.#stopIds.has(tokenId)) return;
    this.#position.accept(tokenId);
    this.#prepare();
  }

  /** Frees it once the package is done with it. */
  dispose(): void {
    void this.#prepared.then(() => this.#matcher.dispose());
  }

  #prepare(): void {
    this.#mask = this.#position.mask;
    if (this.#mask !== undefined) return;
    this.#prepared = this.#position.ask().then(
      (mask) => {
        this.#mask = mask;
      },
      // Whoever draws next is told.
      (cause: unknown) => {
        this.#failure = cause;
      },
    );
  }
}
