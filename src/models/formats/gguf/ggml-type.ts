/**
 * The tensor types of ggml: a tensor is a row of blocks, each of `blockValues` values in `blockBytes` bytes.
 * Types whose values reroll cannot compute are listed too, so that a file holding them can be described.
 */
export const ggmlTypes = {
  F32: { id: 0, blockValues: 1, blockBytes: 4 },
  F16: { id: 1, blockValues: 1, blockBytes: 2 },
  Q4_0: { id: 2, blockValues: 32, blockBytes: 18 },
  Q4_1: { id: 3, blockValues: 32, blockBytes: 20 },
  Q5_0: { id: 6, blockValues: 32, blockBytes: 22 },
  Q5_1: { id: 7, blockValues: 32, blockBytes: 24 },
  Q8_0: { id: 8, blockValues: 32, blockBytes: 34 },
  Q8_1: { id: 9, blockValues: 32, blockBytes: 40 },
  Q2_K: { id: 10, blockValues: 256, blockBytes: 84 },
  Q3_K: { id: 11, blockValues: 256, blockBytes: 110 },
  Q4_K: { id: 12, blockValues: 256, blockBytes: 144 },
  Q5_K: { id: 13, blockValues: 256, blockBytes: 176 },
  Q6_K: { id: 14, blockValues: 256, blockBytes: 210 },
  Q8_K: { id: 15, blockValues: 256, blockBytes: 292 },
  IQ2_XXS: { id: 16, blockValues: 256, blockBytes: 66 },
  IQ2_XS: { id: 17, blockValues: 256, blockBytes: 74 },
  IQ3_XXS: { id: 18, blockValues: 256, blockBytes: 98 },
  IQ1_S: { id: 19, blockValues: 256, blockBytes: 50 },
  IQ4_NL: { id: 20, blockValues: 32, blockBytes: 18 },
  IQ3_S: { id: 21, blockValues: 256, blockBytes: 110 },
  IQ2_S: { id: 22, blockValues: 256, blockBytes: 82 },
  IQ4_XS: { id: 23, blockValues: 256, blockBytes: 136 },
  I8: { id: 24, blockValues: 1, blockBytes: 1 },
  I16: { id: 25, blockValues: 1, blockBytes: 2 },
  I32: { id: 26, blockValues: 1, blockBytes: 4 },
  I64: { id: 27, blockValues: 1, blockBytes: 8 },
  F64: { id: 28, blockValues: 1, blockBytes: 8 },
  IQ1_M: { id: 29, blockValues: 256, blockBytes: 56 },
  BF16: { id: 30, blockValues: 1, blockBytes: 2 },
  TQ1_0: { id: 34, blockValues: 256, blockBytes: 54 },
  TQ2_0: { id: 35, blockValues: 256, blockBytes: 66 },
  MXFP4: { id: 39, blockValues: 32, blockBytes: 17 },
};

/** A tensor type by the name ggml gives it. */
export type GgmlType = keyof typeof ggmlTypes;

/** The type with this number in a file, undefined when reroll does not know it. */
export function ggmlTypeOf(id: number): GgmlType | undefined {
  return typeNames.find((name) => ggmlTypes[name].id === id);
}

function isGgmlType(name: string): name is GgmlType {
  return Object.hasOwn(ggmlTypes, name);
}

const typeNames: readonly GgmlType[] = Object.keys(ggmlTypes).filter(isGgmlType);
