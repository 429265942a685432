/** A run on a damaged Parquet file ends with an error that names the file, instead of training on other rows than were written. */
import { parquetWriteBuffer } from "hyparquet-writer";
import { expect, test } from "vitest";
import { trainSmall } from "../runs/small-run.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const folder = temporaryFolder();

test.each([
  // Found by trying every bit: it changes the number of rows that the file says it has.
  ["one flipped bit", (bytes: Uint8Array) => flip(bytes, 12_974)],
  ["its end cut off", (bytes: Uint8Array) => bytes.slice(0, -10)],
])("with %s", async (_, damage) => {
  const whole = parquetWriteBuffer({
    columnData: [
      { name: "a", data: Array.from({ length: 300 }, (_, i) => `row ${i % 17}`), type: "STRING" },
      { name: "n", data: Array.from({ length: 300 }, (_, i) => i), type: "INT32" },
    ],
    codec: "SNAPPY",
  });
  const path = folder.write("rows.parquet", damage(new Uint8Array(whole)));
  const run = trainSmall({
    data: { type: "parquet", path, fields: { question: "a", truth: "n" } },
    rewards: { default: { type: "contains" } },
    rollout: { groupsPerStep: 1, groupSize: 2, contextLength: 64, sampling: { maxTokens: 2 } },
    training: { optimizer: { lr: 1e-3 } },
    loop: { type: "sync", steps: 1 },
  });
  await expect(run).rejects.toMatchObject({
    code: "DATA_UNREADABLE",
    message: expect.stringContaining("rows.parquet cannot be read as Parquet"),
  });
});

function flip(bytes: Uint8Array, bit: number): Uint8Array {
  const copy = bytes.slice();
  copy[bit >> 3]! ^= 1 << (bit & 7);
  return copy;
}
