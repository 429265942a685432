/** Results of a benchmark as rows: printed as they come, and all of them in a file, since a later one may take longer than there is time. */
import { writeFileSync } from "node:fs";
import { cudaDeviceCount, cudaProperties } from "../../src/torch/cuda.ts";

type Row = Readonly<Record<string, unknown>>;

/**
 * A function that takes the next row. The file, where one is named, says what was measured, when and on which device.
 * @param facts what holds for all rows, such as the shape of the model
 */
export function rowReport(name: string, out: string | undefined, facts: Row = {}): (row: Row) => void {
  const results: Row[] = [];
  return (row) => {
    results.push(row);
    console.log(JSON.stringify(row));
    if (out === undefined) return;
    const device = cudaDeviceCount() > 0 ? cudaProperties() : "cpu";
    const file = { name, date: new Date().toISOString(), device, ...facts, results };
    writeFileSync(out, `${JSON.stringify(file, null, 2)}\n`);
  };
}
