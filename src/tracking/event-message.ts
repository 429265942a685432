/**
 * TensorBoard's events as protocol buffers, written by hand: three kinds of message with a few fields.
 *
 * Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; SessionLog session_log = 7 }
 * Summary { repeated Value value = 1 }, Value { string tag = 1; float simple_value = 2 }, SessionLog { Status status = 1 }
 */

/** Says which format the file has. Must be the first record. */
export function versionEvent(wallSeconds: number): Buffer {
  return Buffer.concat([wallTime(wallSeconds), lengthField(3, Buffer.from("brain.Event:2"))]);
}

/** Says that the run starts, or starts again: what other files have from this step on is not shown any more. */
export function startEvent(wallSeconds: number, step: number): Buffer {
  const START = 1;
  return Buffer.concat([wallTime(wallSeconds), varintField(2, step), lengthField(7, varintField(1, START))]);
}

/** The values of a step. */
export function scalarEvent(wallSeconds: number, step: number, scalars: Readonly<Record<string, number>>): Buffer {
  const values = Object.entries(scalars).map(([tag, value]) => {
    const simpleValue = Buffer.alloc(5);
    simpleValue.writeUInt8((2 << 3) | 5, 0);
    simpleValue.writeFloatLE(value, 1);
    return lengthField(1, Buffer.concat([lengthField(1, Buffer.from(tag)), simpleValue]));
  });
  return Buffer.concat([wallTime(wallSeconds), varintField(2, step), lengthField(5, Buffer.concat(values))]);
}

function wallTime(seconds: number): Buffer {
  const field = Buffer.alloc(9);
  field.writeUInt8((1 << 3) | 1, 0);
  field.writeDoubleLE(seconds, 1);
  return field;
}

function lengthField(number: number, content: Buffer): Buffer {
  return Buffer.concat([varint((number << 3) | 2), varint(content.length), content]);
}

function varintField(number: number, value: number): Buffer {
  return Buffer.concat([varint(number << 3), varint(value)]);
}

/** Seven bits a byte, the lowest first. For whole numbers from 0 to 2^53. */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 127) {
    bytes.push((rest % 128) | 128);
    rest = Math.floor(rest / 128);
  }
  return Buffer.from([...bytes, rest]);
}
