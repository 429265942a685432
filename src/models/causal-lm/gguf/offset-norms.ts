/** Norms that multiply by 1 + weight, as llama.cpp stores them: with the 1 added. */
import type { StoredForm } from "../families/family.ts";

const withOne: StoredForm = {
  problemWith: () => null,
  restore: (values) => values.map((value) => value - 1),
};

/** The stored forms of all norms of a family. */
export const offsetNormForms = {
  inputNorm: withOne,
  attentionOutputNorm: withOne,
  postAttentionNorm: withOne,
  mlpOutputNorm: withOne,
  queryNorm: withOne,
  keyNorm: withOne,
  norm: withOne,
} as const;
