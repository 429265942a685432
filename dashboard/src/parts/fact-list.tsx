/** Names and values, one pair after the other. */
import type { JSX } from "preact";

export type Fact = readonly [name: string, value: string];

export function FactList({ facts }: { readonly facts: readonly Fact[] }): JSX.Element[] {
  return facts.map(([name, value]) => (
    <div key={name}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  ));
}
