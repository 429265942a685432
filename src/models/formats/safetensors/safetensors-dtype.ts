/**
 * The element types a safetensors header may name, and how many bytes one element takes.
 * The 8-bit floats and the unsigned 16, 32 and 64-bit integers are recognized so that a file holding them can be listed and copied.
 */
export const safetensorsDtypeBytes = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  F8_E4M3: 1,
  F8_E5M2: 1,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U64: 8,
  U32: 4,
  U16: 2,
  U8: 1,
  BOOL: 1,
};

/** An element type by the name the safetensors format gives it. */
export type SafetensorsDtype = keyof typeof safetensorsDtypeBytes;

/** Tells whether a name found in a header is an element type we know. */
export function isSafetensorsDtype(name: string): name is SafetensorsDtype {
  return Object.hasOwn(safetensorsDtypeBytes, name);
}
