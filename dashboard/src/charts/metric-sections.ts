/** Which metrics stand together on an overview, and in which order. */

/** A heading, and the names below it: the first pattern that fits comes first. */
interface Section {
  readonly title: string;
  readonly names: readonly RegExp[];
}

const SECTIONS: readonly Section[] = [
  { title: "Reward and success", names: [/^reward\/mean$/, /^env\/success$/, /^reward\/(?!max$|min$)/] },
  { title: "Validation", names: [/^validation\/env\/success$/, /^validation\/reward\/mean$/] },
  { title: "Length", names: [/^rollout\/reply_tokens$/, /^rollout\/turns$/, /^rollout\/truncated_share$/] },
  {
    title: "Entropy, KL and clipping",
    names: [
      /^policy\/entropy$/,
      /^policy\/anchor_kl$/,
      /^score\/reference_kl$/,
      /^policy\/clip_fraction$/,
      /^train\/grad_norm$/,
    ],
  },
  { title: "Sampler against trainer", names: [/^train\/sampler_gap$/, /^rollout_corr\/kl$/, /^rollout_corr\//] },
  { title: "Staleness", names: [/^(train|rollout)\/staleness/] },
  { title: "Throughput", names: [/^throughput\/(generate|train|step)$/, /^idle\//] },
  { title: "Supervised start", names: [/^supervised\/loss$/] },
];

/** The sections that have metrics, and then all that are in none. */
export function sectionsOf<Metric extends { readonly name: string }>(
  metrics: readonly Metric[],
): readonly { readonly title: string; readonly metrics: readonly Metric[] }[] {
  const placed = new Set<string>();
  const sections = SECTIONS.map(({ title, names }) => {
    const inSection = names.flatMap((pattern) =>
      metrics.filter(({ name }) => pattern.test(name) && !placed.has(name) && placed.add(name)),
    );
    return { title, metrics: inSection };
  });
  const rest = metrics.filter(({ name }) => !placed.has(name)).sort((a, b) => (a.name < b.name ? -1 : 1));
  return [...sections, { title: MORE, metrics: rest }].filter((section) => section.metrics.length > 0);
}

/** The heading of all that is in no section. */
export const MORE = "All others";
