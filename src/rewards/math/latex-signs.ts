/** Tables for latex-tokens.ts: which signs, commands and words mean the same, and which mean nothing. */
import { FUNCTION_NAMES } from "./expression.ts";

export const UNICODE_SIGNS: Readonly<Record<string, string>> = {
  "−": "-",
  "–": "-",
  "×": "*",
  "·": "*",
  "⋅": "*",
  "÷": "/",
  π: "\\pi ",
  θ: "\\theta ",
  "√": "\\sqrt ",
  "∞": "\\infty ",
  "≤": "\\leq ",
  "≥": "\\geq ",
  "≠": "\\neq ",
  "±": "\\pm ",
  "∪": "\\cup ",
  "∈": "\\in ",
  "∅": "\\emptyset ",
  ℝ: "\\mathbb{R}",
  "²": "^{2}",
  "³": "^{3}",
  "½": "\\frac{1}{2}",
  "¼": "\\frac{1}{4}",
  "¾": "\\frac{3}{4}",
  "\u00a0": " ",
};
export const UNICODE = new RegExp(`[${Object.keys(UNICODE_SIGNS).join("")}]`, "gu");

export const DROPPED = new Set(
  "left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr displaystyle textstyle quad qquad limits rm bf it boxed fbox ensuremath".split(
    " ",
  ),
);
export const DROPPED_WITH_GROUP = new Set(["phantom", "hspace", "vspace", "label", "tag"]);
export const TEXTUAL = new Set(
  "text mbox textbf textit textrm textnormal textsf texttt mathrm operatorname mathit".split(" "),
);
export const FONTS = new Set("mathbf boldsymbol pmb bm".split(" "));
export const NAMED_LETTERS = new Set("mathbb mathcal mathfrak mathscr vec bar hat tilde overline".split(" "));
export const NUM_ARGUMENTS: Readonly<Record<string, number>> = { frac: 2, binom: 2, sqrt: 1 };
export const SAME_COMMAND: Readonly<Record<string, string>> = {
  dfrac: "frac",
  tfrac: "frac",
  cfrac: "frac",
  dbinom: "binom",
  tbinom: "binom",
  le: "leq",
  leqslant: "leq",
  ge: "geq",
  geqslant: "geq",
  ne: "neq",
  varnothing: "emptyset",
  inf: "infty",
  infinity: "infty",
  asin: "arcsin",
  acos: "arccos",
  atan: "arctan",
  varepsilon: "epsilon",
  varphi: "phi",
  dots: "ldots",
  cdots: "ldots",
};
export const COMMAND_SYMBOLS: Readonly<Record<string, string>> = {
  times: "*",
  cdot: "*",
  ast: "*",
  div: "/",
  lt: "<",
  gt: ">",
  colon: ":",
  lbrace: "\\{",
  rbrace: "\\}",
  lbrack: "[",
  rbrack: "]",
  lvert: "|",
  rvert: "|",
  vert: "|",
  mid: "|",
  degree: "°",
};
export const GREEK = new Set(
  "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Sigma Upsilon Phi Psi Omega ell aleph".split(
    " ",
  ),
);
export const PLAIN_COMMANDS = new Set([
  ...FUNCTION_NAMES,
  "sqrt",
  "pi",
  "infty",
  "inf",
  "infinity",
  "asin",
  "acos",
  "atan",
]);
export const SHORT_WORDS = new Set("or and yes no on in is not odd all red may usd one two six ten".split(" "));
export const GLUED_FUNCTION = /^(sin|cos|tan|cot|sec|csc|ln|log|exp|sqrt)([a-z])$/;
