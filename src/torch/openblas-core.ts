/**
 * Which of its kernels OpenBLAS is to take, where it may not know the processor.
 *
 * It goes by lists of models. Debian's is older than the newest Intel processors and takes the kernels of 2004 there, which are many times slower and
 * add up in an order that depends on how many rows there are.
 */

const AVX512 = ["avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"];

/** A value for OPENBLAS_CORETYPE; null to leave the choice to OpenBLAS. In: what Linux says in /proc/cpuinfo. */
export function openblasCore(cpuinfo: string): string | null {
  const flags = new Set((/^flags\s*:(.*)$/m.exec(cpuinfo)?.[1] ?? "").split(" "));
  const isIntel = /^vendor_id\s*:\s*GenuineIntel$/m.test(cpuinfo);
  return isIntel && AVX512.every((flag) => flags.has(flag)) ? "SkylakeX" : null;
}
