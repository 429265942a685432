import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { SinkContext } from "./metric-sink.ts";
import type { MetricRecord, RunInfo } from "./run-record.ts";
import { tensorboardSink } from "./tensorboard-sink.ts";
import { readRecords } from "./tfrecord.ts";

const record: MetricRecord = {
  step: 300,
  timeMs: 1_700_000_000_500,
  kind: "train",
  metrics: { "reward/mean": 0.5, "train/loss": Number.NaN },
};

test("event files hold the version, the start, and the scalars of every step", async () => {
  const folder = await mkdtemp(join(tmpdir(), "reroll-tb-"));
  const warnings: string[] = [];
  const sink = tensorboardSink()(context(folder, warnings, 299));
  sink.log(record);
  await sink.close("finished");
  const [name] = await readdir(join(folder, "tensorboard"));
  const events = readRecords(await readFile(join(folder, "tensorboard", name!))).map(parseEvent);
  await rm(folder, { recursive: true });
  expect(name).toMatch(/^events\.out\.tfevents\.\d{10}\./);
  expect(events[0]).toMatchObject({ version: "brain.Event:2" });
  expect(events[1]).toMatchObject({ step: 300, isStart: true });
  expect(events[2]).toEqual({
    wallSeconds: 1_700_000_000.5,
    step: 300,
    scalars: { "reward/mean": 0.5, "train/loss": Number.NaN },
  });
  expect(warnings).toEqual([]);
});

test("a file that cannot be written is one warning", async () => {
  const warnings: string[] = [];
  const sink = tensorboardSink()(context("/dev/null/nowhere", warnings, 0));
  sink.log(record);
  await sink.close("finished");
  sink.log(record);
  await sink.close("finished");
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toMatch(/^The TensorBoard file cannot be written/);
});

function context(folder: string, warnings: string[], startStep: number): SinkContext {
  return { info: {} as RunInfo, folder, config: {}, startStep, warn: (text) => warnings.push(text) };
}

interface ParsedEvent {
  wallSeconds?: number;
  step?: number;
  version?: string;
  isStart?: boolean;
  scalars?: Record<string, number>;
}

function parseEvent(bytes: Buffer): ParsedEvent {
  const event: ParsedEvent = {};
  for (const { number, value } of fieldsOf(bytes)) {
    if (number === 1 && Buffer.isBuffer(value)) event.wallSeconds = value.readDoubleLE();
    if (number === 2 && typeof value === "number") event.step = value;
    if (number === 3) event.version = value.toString();
    if (number === 5 && Buffer.isBuffer(value)) event.scalars = Object.fromEntries(fieldsOf(value).map(parseValue));
    if (number === 7 && Buffer.isBuffer(value)) event.isStart = fieldsOf(value)[0]?.value === 1;
  }
  return event;
}

function parseValue({ value }: Field): [string, number] {
  const [tag, simple] = fieldsOf(value as Buffer);
  return [tag!.value.toString(), (simple!.value as Buffer).readFloatLE()];
}

interface Field {
  readonly number: number;
  readonly value: number | Buffer;
}

/** A reader of protocol buffers that knows fields by number only. */
function fieldsOf(bytes: Buffer): Field[] {
  const fields: Field[] = [];
  let place = 0;
  const varint = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[place++]!;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  const take = (length: number) => {
    place += length;
    return bytes.subarray(place - length, place);
  };
  while (place < bytes.length) {
    const key = varint();
    const [number, wire] = [key >> 3, key & 7];
    const value = wire === 0 ? varint() : take(wire === 1 ? 8 : wire === 5 ? 4 : varint());
    fields.push({ number, value });
  }
  return fields;
}
