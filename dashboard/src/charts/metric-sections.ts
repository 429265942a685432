/** Which metrics stand together on an overview, and in which order. */

/** A heading, and the names below it: the first pattern that fits comes first. */
interface Section {
  readonly title: string;
  readonly names: readonly RegExp[];
}

const SECTIONS: readonly Section[] = [
  {
    title: "Reward and success",
    names: [/^reward\/mean$/, /^env\/success$/, /^episode\/return/, /^reward\/(?!max$|min$)/],
  },
  {
    title: "Validation",
    names: [/^validation\/env\/success$/, /^validation\/reward\/mean$/, /^validation\/episode\//],
  },
  {
    title: "Loss and preferences",
    names: [
      /^validation\/(loss|preference\/(accuracy|margin))$/,
      /^train\/loss$/,
      /^preference\/(accuracy|margin|score|(chosen|rejected)_reward)$/,
    ],
  },
  {
    title: "Teachers and reflection",
    names: [/^distillation\/(reverse_kl|forward_kl|jsd)$/, /^reflection\/(success_share|divergence|tries)$/],
  },
  {
    title: "Length",
    names: [/^rollout\/reply_tokens$/, /^rollout\/turns$/, /^episode\/length$/, /^rollout\/truncated_share$/],
  },
  {
    title: "Entropy, KL and clipping",
    names: [
      /^policy\/entropy$/,
      /^policy\/(anchor_|approx_)?kl$/,
      /^score\/reference_kl$/,
      /^score\/kl_coefficient$/,
      /^policy\/clip_fraction$/,
      /^train\/grad_norm$/,
      /^value\/explained_variance$/,
    ],
  },
  {
    title: "Sampler against trainer",
    names: [/^train\/sampler_gap/, /^rollout_corr\/kl$/, /^rollout_corr\/rollout_is_(mean|max|eff_sample_size)$/],
  },
  { title: "Staleness", names: [/^(train|rollout)\/staleness/] },
  { title: "Throughput", names: [/^throughput\//, /^idle\//] },
  // Last of all, because they are many.
  { title: "Rollout correction", names: [/^rollout_corr\//] },
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
