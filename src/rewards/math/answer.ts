/** What an answer can be, once it is read. */
import type { Expression } from "./expression.ts";
import type { Unit } from "./units.ts";

export type Answer =
  | ValueAnswer
  /** Items without brackets around them: solutions, in any order. */
  | { readonly kind: "list"; readonly items: readonly Answer[] }
  | { readonly kind: "set"; readonly items: readonly Answer[] }
  | TupleAnswer
  | { readonly kind: "union"; readonly parts: readonly Answer[] }
  | RelationAnswer
  | { readonly kind: "matrix"; readonly rows: readonly (readonly ValueAnswer[])[] }
  | { readonly kind: "choice"; readonly letter: string }
  | { readonly kind: "words"; readonly text: string }
  /** Mathematics that is not read here: the same as itself, and for a computer algebra system to compare with anything else. */
  | { readonly kind: "opaque"; readonly latex: string };

/** One expression, with whatever stood behind it. */
export interface ValueAnswer {
  readonly kind: "value";
  readonly expression: Expression;
  readonly latex: string;
  readonly unit: Unit | null;
  /** A word that is no unit of measure: "ways", "p.m.". */
  readonly label: string | null;
  readonly isPercent: boolean;
}

/** Points, vectors and intervals, which are written alike. `:` brackets a ratio. */
export interface TupleAnswer {
  readonly kind: "tuple";
  readonly open: "(" | "[" | ":";
  readonly close: ")" | "]" | ":";
  readonly items: readonly Answer[];
}

/** `sides[0] operators[0] sides[1] ...` */
export interface RelationAnswer {
  readonly kind: "relation";
  readonly operators: readonly RelationOperator[];
  readonly sides: readonly Answer[];
}

export type RelationOperator = "=" | "<" | ">" | "leq" | "geq" | "neq" | "in";
