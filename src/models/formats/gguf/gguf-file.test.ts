import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { float32, ggufBytes } from "../../../../test/fuzz/gguf-bytes.ts";
import { openGguf } from "./gguf-file.ts";

const fixture = (name: string) =>
  openGguf(fileURLToPath(new URL(`../../../../fixtures/gguf/${name}.gguf`, import.meta.url)));

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "reroll-gguf-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

test("a tensor that is not there is reported with the nearest name", () => {
  expect(() => fixture("qwen3").readTensor("blk.0.attn_q.weights")).toThrow(
    /Nearest name in the file: "blk.0.attn_q.weight"/,
  );
});

test("a tensor longer than the read buffer is read whole", () => {
  const count = 2 ** 18 + 3;
  const values = Float32Array.from({ length: count }, (_, index) => index);
  const path = join(folder, "large.gguf");
  writeFileSync(
    path,
    ggufBytes({
      tensors: [{ name: "a", dimensions: [count], type: 0, offset: 0 }],
      data: new Uint8Array(values.buffer),
    }),
  );
  const read = openGguf(path).readTensor("a");
  expect(Buffer.from(read.buffer).equals(Buffer.from(values.buffer))).toBe(true);
});

test("a type that cannot be computed lists those that can", () => {
  const path = join(folder, "iq.gguf");
  const tensors = [{ name: "a", dimensions: [256], type: 16, offset: 0 }];
  writeFileSync(path, ggufBytes({ tensors, data: new Uint8Array(66) }));
  expect(() => openGguf(path).readTensor("a")).toThrow(
    'iq.gguf: tensor "a" has type IQ2_XXS. Supported: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K.',
  );
});

test("a file that shrinks after it was opened is noticed", () => {
  const path = join(folder, "short.gguf");
  writeFileSync(
    path,
    ggufBytes({ tensors: [{ name: "a", dimensions: [2], type: 0, offset: 0 }], data: float32(1, 2) }),
  );
  const file = openGguf(path);
  truncateSync(path, 68);
  expect(() => file.readTensor("a")).toThrow(/ended at byte 68, 4 bytes short/);
});
