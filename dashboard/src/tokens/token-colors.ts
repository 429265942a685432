/** What tokens can be colored by, and how. */
import type { Token } from "./token-list.ts";

/** A way to color. */
export interface TokenColoring {
  readonly name: string;
  /** The number behind the color; null for a token that has none. */
  readonly value: (token: Token) => number | null;
  /** From a number to a color; `largest` is the largest size among all tokens. */
  readonly color: (value: number, largest: number) => string;
  /** What the colors mean. */
  readonly legend: string;
}

/** Log-probs below this are all as red as can be. */
const UNLIKELY = -4;

/** All of them, in the order of the menu. */
export const tokenColorings: readonly TokenColoring[] = [
  {
    name: "log-prob",
    value: ({ logprob }) => logprob,
    color: (value) => tint(25, Math.min(1, value / UNLIKELY)),
    legend: "The redder, the less likely the token was to the sampler.",
  },
  {
    name: "entropy",
    value: ({ entropy }) => entropy,
    color: (value, largest) => tint(290, value / largest),
    legend: "The stronger, the more the policy was undecided.",
  },
  {
    name: "ratio",
    value: ({ ratio }) => ratio,
    color: (value) => twoSided(Math.log(value) / Math.log(1.5)),
    legend: "Policy over sampler: green above 1, red below 1, none at 1.",
  },
  {
    name: "advantage",
    value: ({ advantage }) => advantage,
    color: (value, largest) => twoSided(value / largest),
    legend: "Green makes the token likelier, red less likely.",
  },
  {
    name: "loss mask",
    value: ({ isLoss }) => (isLoss ? 1 : 0),
    color: (value) => (value === 1 ? tint(150, 0.6) : "transparent"),
    legend: "Green tokens count in the loss.",
  },
  {
    name: "version",
    value: ({ version }) => version,
    color: (value) => tint((value * 67) % 360, 0.6),
    legend: "One color for each version of the weights.",
  },
];

function tint(hue: number, strength: number): string {
  return `oklch(0.68 0.17 ${hue} / ${(0.85 * Math.max(0, Math.min(1, strength))).toFixed(2)})`;
}

function twoSided(strength: number): string {
  return strength >= 0 ? tint(150, strength) : tint(25, -strength);
}
