/**
 * Whether training keeps its memory: live native bytes, live tensors and resident memory over many steps.
 *
 * node --import tsx bench/memory-flat.ts [steps]
 * Bar: from the end of the warm-up on, live bytes and live tensors do not grow at all, and resident memory, which also
 * has the JavaScript heap and what malloc keeps, by less than 5 %.
 */
import { native } from "../src/torch/binding.ts";
import { DecoderTraining, type Workload } from "./decoder-training.ts";
import { printTable, writeResult } from "./report.ts";

const maxResidentGrowth = 0.05;
const numSteps = Number(process.argv[2] ?? 2000);
const stepsPerRecord = 50;
const warmUpSteps = 200;
const workload: Workload = { preset: "nano", vocabSize: 256, rows: 8, tokensPerRow: 128 };

interface MemoryRecord {
  readonly step: number;
  readonly loss: number;
  readonly liveBytes: number;
  readonly liveTensors: number;
  readonly peakBytes: number;
  readonly residentBytes: number;
  readonly heapBytes: number;
}

if (!(numSteps > 2 * warmUpSteps)) throw new Error(`steps must be above ${2 * warmUpSteps}: got ${process.argv[2]}`);
const training = new DecoderTraining(workload);
const start = performance.now();
const records: MemoryRecord[] = [];
for (let step = 1; step <= numSteps; step++) {
  const loss = training.step();
  if (step % stepsPerRecord === 0) records.push(recordOf(step, loss));
}
report((performance.now() - start) / numSteps);

function recordOf(step: number, loss: number): MemoryRecord {
  const { liveBytes, liveTensors, peakBytes } = native.memoryStats();
  const { rss: residentBytes, heapUsed: heapBytes } = process.memoryUsage();
  return { step, loss, liveBytes, liveTensors, peakBytes, residentBytes, heapBytes };
}

function report(msPerStep: number): void {
  const headers = ["step", "loss", "live bytes", "live tensors", "peak MB", "resident MB", "JS heap MB"];
  const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1);
  const rows = records.map((record) => [
    String(record.step),
    record.loss.toFixed(4),
    String(record.liveBytes),
    String(record.liveTensors),
    megabytes(record.peakBytes),
    megabytes(record.residentBytes),
    megabytes(record.heapBytes),
  ]);
  printTable(`Memory over ${numSteps} training steps, ${msPerStep.toFixed(0)} ms each`, headers, rows);
  const first = records.find(({ step }) => step >= warmUpSteps) ?? records[0]!;
  const last = records.at(-1)!;
  const growth = {
    liveBytes: last.liveBytes - first.liveBytes,
    liveTensors: last.liveTensors - first.liveTensors,
    residentBytes: last.residentBytes - first.residentBytes,
  };
  const residentShare = growth.residentBytes / first.residentBytes;
  const isFlat = growth.liveBytes <= 0 && growth.liveTensors <= 0 && residentShare < maxResidentGrowth;
  console.log(
    `\nFrom step ${first.step} to ${last.step}: ${growth.liveBytes} live bytes, ${growth.liveTensors} live tensors, ` +
      `${megabytes(growth.residentBytes)} MB resident (${(100 * residentShare).toFixed(1)} %): ` +
      `${isFlat ? "flat" : "NOT flat"}.`,
  );
  writeResult("memory-flat", { workload, numSteps, msPerStep, growth, residentShare, isFlat, records });
}
