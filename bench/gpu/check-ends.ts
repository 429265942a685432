/** The kernels at the ends of a decode step: what comes from the host, and what goes there. */
import { empty, pinned, randint, randn, tensor, zeros } from "../../src/torch/create.ts";
import { cudaSynchronize } from "../../src/torch/cuda.ts";
import type { DType } from "../../src/torch/dtype.ts";
import { deliverKernel, receiveKernel } from "../../src/torch/kernels/token-kernel.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

/** Compares two tensors and prints the largest difference. */
type Report = (name: string, dtype: DType, got: Tensor, expected: Tensor, tolerance: number) => void;

const device = "cuda";

/** Input of both turns, with one table of rotations and with two, and output of both turns. */
export function checkEnds(report: Report): void {
  for (const [B, width, numTables] of [
    [1, 32, 1],
    [64, 32, 2],
    [256, 20, 1],
  ] as const) {
    const [N, P] = [B * 9, 700];
    const table = () => ({ cos_PK: randn([P, width], { device }), sin_PK: randn([P, width], { device }) });
    const tables = numTables === 1 ? ([table()] as const) : ([table(), table()] as const);
    const values = Int32Array.from({ length: 2 * N }, (_, i) => (i * 7919) % P);
    // Rows take their token from what was drawn, and from the input, in turn.
    for (let i = 0; i < 2 * N; i++) if (Math.floor((i % N) / B) === 1) values[i] = i % 2 === 0 ? -1 : i % B;
    const slots_2N = pinned([2, N], "int32").writeFrom(values);
    const drawn = randint(0, P, [B], { device }).to("int32");
    const [turn, outputs_2P, numbers_B] = [
      zeros([1], { device, dtype: "int32" }),
      pinned([2, B], "float32"),
      randn([B], { device }),
    ];
    for (const now of [0, 1]) {
      const input_N = empty([N], { device, dtype: "int32" });
      const lookup = { tables, positionsAt: 2 * B };
      const { ids_B, rotations } = receiveKernel(input_N, slots_2N, turn, drawn, B, lookup);
      const own = tensor(values.slice(now * N, (now + 1) * N), [N], { device });
      const same = (name: string, got: Tensor, expected: Tensor) =>
        report(`${name} ${B}, turn ${now}`, "float32", got, expected.to("float64"), 1e-30);
      same("input", input_N, own);
      const from_B = own.narrow(0, B, B);
      const kept_B = own.narrow(0, 0, B);
      same("ids", ids_B, kept_B.where(from_B.lt(0), drawn.indexSelect(0, from_B.clamp(0))));
      rotations.forEach(({ cos_SK, sin_SK }, i) => {
        same("cosine", cos_SK, tables[i]!.cos_PK.indexSelect(0, own.narrow(0, 2 * B, B)));
        same("sine", sin_SK, tables[i]!.sin_PK.indexSelect(0, own.narrow(0, 2 * B, B)));
      });
      deliverKernel(outputs_2P, turn, numbers_B);
      cudaSynchronize();
      same("output", outputs_2P.select(0, now).toDevice(device), numbers_B);
    }
    report(`turn ${B}`, "float32", turn.add(1), tensor(Float64Array.of(1), [1], { device }), 1e-30);
  }
}
