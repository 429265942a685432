import { expect, test } from "vitest";
import { openblasCore } from "./openblas-core.ts";

const cpuinfo = (vendor: string, flags: string) =>
  `processor\t: 0\nvendor_id\t: ${vendor}\nmodel\t\t: 207\nflags\t\t: fpu ${flags} amx_tile\nbugs\t\t:\n`;
const avx512 = "avx2 avx512f avx512dq avx512cd avx512bw avx512vl";

test("Intel processors with AVX-512 get its kernels, and the choice for others is left to OpenBLAS", () => {
  expect(openblasCore(cpuinfo("GenuineIntel", avx512))).toBe("SkylakeX");
  expect(openblasCore(cpuinfo("GenuineIntel", "avx2"))).toBeNull();
  expect(openblasCore(cpuinfo("GenuineIntel", "avx2 avx512f"))).toBeNull();
  expect(openblasCore(cpuinfo("AuthenticAMD", avx512))).toBeNull();
  expect(openblasCore("")).toBeNull();
});
