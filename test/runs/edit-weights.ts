/** Changes the weights in a model folder, as another tool might have written them. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

interface Weight {
  readonly shape: readonly number[];
  /** Of float32. */
  readonly bytes: Buffer;
}

export function editWeights(folder: string, edit: (weights: Map<string, Weight>) => void): void {
  const path = join(folder, "model.safetensors");
  const file = readFileSync(path);
  const start = 8 + Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString("utf8", 8, start)) as Record<string, Stored>;
  const { __metadata__: _, ...stored } = header;
  const weights = new Map(
    Object.entries(stored).map(
      ([
        name,
        {
          shape,
          data_offsets: [from, to],
        },
      ]): [string, Weight] => [name, { shape, bytes: file.subarray(start + from, start + to) }],
    ),
  );
  edit(weights);
  let offset = 0;
  const entries = [...weights].map(([name, { shape, bytes }]): [string, Stored] => {
    const from = offset;
    offset += bytes.length;
    return [name, { dtype: "F32", shape, data_offsets: [from, offset] }];
  });
  const text = JSON.stringify(Object.fromEntries(entries));
  const head = Buffer.from(text.padEnd(8 * Math.ceil(text.length / 8)));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(head.length));
  writeFileSync(path, Buffer.concat([size, head, ...[...weights.values()].map(({ bytes }) => bytes)]));
}

interface Stored {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}
