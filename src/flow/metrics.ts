/**
 * Numbers that a stage gives beside its result, by name. Names are `stage/quantity`; docs/reference/metrics.md lists them with
 * unit and meaning.
 */
export type Metrics = Readonly<Record<string, number>>;
