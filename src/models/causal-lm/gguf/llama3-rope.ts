/**
 * Recovers Llama 3's rotary scaling from the tensor GGUF stores instead of it: one factor per rotation frequency.
 *
 * Llama 3 divides the frequency f_i = base^(-2i/K) of wavelength w_i = 2 pi / f_i by
 *   1                               where w_i < L / high
 *   factor                          where w_i > L / low
 *   1 / ((1 - s) / factor + s)      between, with s = (L / w_i - low) / (high - low)
 * for an original context of L tokens. The factors fix only L / low and L / high, so low is set to 1, as in every released model.
 * Source: Llama 3.1 in Hugging Face transformers and llama.cpp's converter.
 */

/** The scaling in the words of a Hugging Face config. */
export interface Llama3Rope {
  readonly rope_type: "llama3";
  readonly factor: number;
  readonly low_freq_factor: number;
  readonly high_freq_factor: number;
  readonly original_max_position_embeddings: number;
}

/** The scaling that gives these factors to within 1 part in 10^4, or null when there is none. */
export function recoverLlama3Rope(factors: Float32Array, base: number): Llama3Rope | null {
  const factor = factors.reduce((largest, value) => Math.max(largest, value), 1);
  for (const [original, high] of guessShapes(factors, base, factor)) {
    const rope: Llama3Rope = {
      rope_type: "llama3",
      factor,
      low_freq_factor: 1,
      high_freq_factor: high,
      original_max_position_embeddings: original,
    };
    if (isNear(llama3RopeFactors(rope, base, 2 * factors.length), factors)) return rope;
  }
  return null;
}

/** The factor of each frequency of a head of `headSize` values. */
export function llama3RopeFactors(rope: Llama3Rope, base: number, headSize: number): Float32Array {
  const { factor, low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: original } = rope;
  return wavelengths(base, headSize / 2).map((wavelength) => {
    if (wavelength < original / high) return 1;
    if (wavelength > original / low) return factor;
    const smooth = (original / wavelength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
  });
}

function wavelengths(base: number, count: number): Float32Array {
  return Float32Array.from({ length: count }, (_, index) => 2 * Math.PI * base ** (index / count));
}

/** Candidates for (L, high), the likeliest first: what Llama 3.1 to 3.3 have, then what the factors between the plateaus say. */
function* guessShapes(factors: Float32Array, base: number, factor: number): Iterable<[number, number]> {
  yield [8192, 4];
  const waves = wavelengths(base, factors.length);
  const between = [...factors.keys()].filter((index) => factors[index]! > 1.0001 && factors[index]! < factor * 0.9999);
  const smoothAt = (index: number) => (1 / factors[index]! - 1 / factor) / (1 - 1 / factor);
  for (const index of between) yield [Math.round(waves[index]! * (1 + 3 * smoothAt(index))), 4];
  const first = between[0];
  const last = between.at(-1);
  if (first !== undefined && last !== undefined && first !== last) {
    // s = slope / w - offset is a line in 1 / w: two points give slope = L / (high - 1) and offset = 1 / (high - 1).
    const slope = (smoothAt(first) - smoothAt(last)) / (1 / waves[first]! - 1 / waves[last]!);
    const offset = slope / waves[last]! - smoothAt(last);
    yield [Math.round(slope / offset), 1 + 1 / offset];
  }
  const lastPlain = factors.lastIndexOf(1);
  // Without a point between the plateaus any L between them will do, where a ratio of 4 fits.
  if (between.length === 0 && lastPlain >= 0 && lastPlain + 1 < waves.length) {
    yield [Math.round(Math.sqrt(4 * waves[lastPlain]! * waves[lastPlain + 1]!)), 4];
  }
}

function isNear(left: Float32Array, right: Float32Array): boolean {
  return left.every((value, index) => Math.abs(value - right[index]!) <= 1e-4 * Math.abs(right[index]!));
}
