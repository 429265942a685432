/**
 * Values as Python pickles them, for servers that take nothing else. Opcodes of protocol 3, as in CPython's `pickletools`.
 *
 * Arrays become lists. Whole numbers must fit into 64 bits, signed.
 */
import { invariant } from "../../errors/reroll-error.ts";

export type PythonValue =
  | string
  | number
  | boolean
  | Uint8Array
  | readonly PythonValue[]
  | { readonly tuple: readonly PythonValue[] }
  | { readonly dict: readonly (readonly [PythonValue, PythonValue])[] }
  /** A class or a constant of a module, by its name. */
  | { readonly module: string; readonly name: string }
  /** What comes of calling one with these arguments. */
  | { readonly call: { readonly module: string; readonly name: string }; readonly args: readonly PythonValue[] };

export function pickle(value: PythonValue): Uint8Array {
  return Buffer.concat([Buffer.of(0x80, 3), ...write(value), Buffer.from(".")]);
}

function write(value: PythonValue): Buffer[] {
  if (typeof value === "boolean") return [Buffer.of(value ? 0x88 : 0x89)];
  if (typeof value === "number") return [writeInteger(value)];
  if (typeof value === "string") return withLength("X", Buffer.from(value, "utf8"));
  if (value instanceof Uint8Array) return withLength("B", value);
  if ("tuple" in value) return [Buffer.from("("), ...value.tuple.flatMap(write), Buffer.from("t")];
  if ("dict" in value)
    return [
      Buffer.from("}("),
      ...value.dict.flatMap(([key, held]) => [...write(key), ...write(held)]),
      Buffer.from("u"),
    ];
  if ("call" in value) return [...write(value.call), ...write({ tuple: value.args }), Buffer.from("R")];
  if ("module" in value) return [Buffer.from(`c${value.module}\n${value.name}\n`, "latin1")];
  return [Buffer.from("]("), ...value.flatMap(write), Buffer.from("e")];
}

/** With the length in 32 bits, which is enough for what travels in a request. */
function withLength(opcode: string, bytes: Uint8Array): Buffer[] {
  const head = Buffer.alloc(5);
  head.write(opcode, "latin1");
  head.writeUInt32LE(bytes.length, 1);
  return [head, Buffer.from(bytes)];
}

function writeInteger(value: number): Buffer {
  invariant(Number.isSafeInteger(value), `${value} is pickled as a whole number`);
  const long = Buffer.alloc(10);
  long.writeUInt8(0x8a, 0);
  long.writeUInt8(8, 1);
  long.writeBigInt64LE(BigInt(value), 2);
  return long;
}
