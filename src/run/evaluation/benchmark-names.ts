/** The names of benchmarks, apart from what they need, so that `--help` knows them at once. */
export const benchmarkNames = ["gsm8k", "math-500", "humaneval", "mbpp", "ifeval"] as const;

export type BenchmarkName = (typeof benchmarkNames)[number];
