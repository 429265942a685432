/** A running mean of an optimizer, in full or in less memory. Arithmetic is always done in full: it is read, changed and written back. */
import { empty, zeros, zerosLike } from "../create.ts";
import type { DType } from "../dtype.ts";
import { keep } from "../scope.ts";
import type { Tensor } from "../tensor.ts";
import { BLOCK, decode, encode, type Sign } from "./dynamic-codes.ts";

/** How moments are kept: in the type of the weights that are updated, as bfloat16, or as 8-bit codes with a scale per 256 of them. */
export type MomentFormat = "full" | "bfloat16" | "8-bit";

export interface Moment {
  /** The moment in the type of the weights. A full one is the moment itself. */
  read(): Tensor;
  /** Keeps what `read` gave, after it was changed. */
  write(value: Tensor): void;
  /** What it consists of, by the ending of its name in a saved state: "" and "Scale". */
  readonly parts: ReadonlyMap<"" | "Scale", Tensor>;
  dispose(): void;
}

/** Tensors up to this size keep their moments in full: norms and biases are few, and sensitive. */
const MAX_FULL = 4096;

/** A moment of zeros for weights like these. */
export function createMoment(like: Tensor, format: MomentFormat, sign: Sign): Moment {
  if (format === "full" || like.numel <= MAX_FULL) return fullMoment(keep(zerosLike(like)));
  return format === "bfloat16" ? shortMoment(like) : codedMoment(like, sign);
}

function fullMoment(value: Tensor): Moment {
  return { read: () => value, write: () => {}, ...whole(new Map([["", value]])) };
}

function shortMoment({ shape, dtype, device }: Tensor): Moment {
  const short = keep(zeros(shape, { dtype: "bfloat16", device }));
  return {
    read: () => (dtype === "bfloat16" ? short : short.to(dtype)),
    write: (value) => void (value !== short && short.copy_(value)),
    ...whole(new Map([["", short]])),
  };
}

/**
 * A moment as codes. One that is never negative is a mean of squares, and its root is what is coded: steps divide by the root, and squares
 * of gradients that differ by four powers of ten would be lost beside each other.
 */
function codedMoment({ shape, dtype, device, numel }: Tensor, sign: Sign): Moment {
  const codes = keep(empty(shape, { dtype: "uint8", device }));
  // Whatever the codes say, a scale of 0 makes zeros of them; code 0 keeps what is saved the same every time.
  codes.zero_();
  const scales = keep(zeros([Math.ceil(numel / BLOCK)], { dtype: "float32", device }));
  const isSquare = sign === "unsigned";
  const decoded = () => (isSquare ? decode(codes, scales, sign).square() : decode(codes, scales, sign));
  return {
    read: () => decoded().to(dtype as DType),
    write: (value) => encode(isSquare ? value.sqrt() : value, codes, scales, sign),
    ...whole(
      new Map([
        ["", codes],
        ["Scale", scales],
      ]),
    ),
  };
}

function whole(parts: ReadonlyMap<"" | "Scale", Tensor>): Pick<Moment, "parts" | "dispose"> {
  return {
    parts,
    dispose: () => {
      for (const part of parts.values()) part.dispose();
    },
  };
}
