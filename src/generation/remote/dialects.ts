/** The kinds of servers that can sample for a run. Types, options and messages are derived from this table. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Dialect } from "./dialect.ts";
import { llamaCppDialect } from "./llama-cpp-dialect.ts";
import { rerollDialect, vllmDialect } from "./openai-dialect.ts";
import { sglangDialect } from "./sglang-dialect.ts";
import type { WeightWay } from "./weight-routes.ts";

const dialects = {
  reroll: rerollDialect,
  vllm: vllmDialect,
  sglang: sglangDialect,
  "llama-cpp": llamaCppDialect,
} as const satisfies Readonly<Record<string, Dialect>>;

export type RemoteKind = keyof typeof dialects;

export const remoteKinds = Object.keys(dialects) as [RemoteKind, ...RemoteKind[]];

/** The kinds that can be given weights this way while they run, as training needs it. */
export function kindsThatTake(way: WeightWay): readonly RemoteKind[] {
  const part = { files: "loadFolder", broadcast: "group", "same-gpu": "sameGpu", adapters: "adapters" } as const;
  return remoteKinds.filter((kind) => dialectOf(kind).weights?.[part[way]] !== undefined);
}

/** The kinds that say how likely the tokens of a prompt are, as a teacher must. */
export const teacherKinds = remoteKinds.filter((kind) => dialectOf(kind).scorePrompt !== undefined) as [
  RemoteKind,
  ...RemoteKind[],
];

export function dialectOf(kind: RemoteKind): Dialect {
  if (Object.hasOwn(dialects, kind)) return dialects[kind];
  throw new RerollError("INVALID_OPTION", `connectRemote has no kind "${kind}". Kinds: ${remoteKinds.join(", ")}.`, {
    kind,
  });
}
