import { describe, expect, test } from "vitest";
import { seccompFilter } from "./seccomp-filter.ts";

const ALLOW = 0x7fff0000;
const EPERM = 0x00050001;
const ENOSYS = 0x00050026;
const EAFNOSUPPORT = 0x00050061;
const KILL = 0x80000000;

const machines = {
  x64: { audit: 0xc000003e, read: 0, mount: 165, ptrace: 101, memfdCreate: 319, clone: 56, socket: 41, unshare: 272 },
  arm64: {
    audit: 0xc00000b7,
    read: 63,
    mount: 40,
    ptrace: 117,
    memfdCreate: 279,
    clone: 220,
    socket: 198,
    unshare: 97,
  },
} as const;

describe.each(["x64", "arm64"] as const)("the seccomp filter on %s", (name) => {
  const { audit, ...calls } = machines[name];
  const decide = (call: number, argument = 0, architecture: number = audit) =>
    interpret(seccompFilter(name)!, { call, argument, architecture });

  test("allows what programs need", () => {
    expect(decide(calls.read)).toBe(ALLOW);
    expect([1, 2, 10].map((family) => decide(calls.socket, family))).toEqual([ALLOW, ALLOW, ALLOW]);
  });

  test("allows threads and processes, but no namespace", () => {
    const [thread, fork, vfork] = [0x3d0f00, 0x1200011, 0x4111];
    expect([thread, fork, vfork].map((flags) => decide(calls.clone, flags))).toEqual([ALLOW, ALLOW, ALLOW]);
    const namespaces = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000];
    for (const flag of namespaces) expect(decide(calls.clone, fork | flag)).toBe(EPERM);
  });

  test("denies mounting, tracing, namespaces and memory that no limit counts", () => {
    const denied = [calls.mount, calls.ptrace, calls.unshare, calls.memfdCreate, 425, 430];
    expect(denied.map((call) => decide(call))).toEqual(denied.map(() => EPERM));
  });

  test("says that clone3 does not exist, so that the C library takes clone", () => {
    expect(decide(435)).toBe(ENOSYS);
  });

  test("refuses sockets of other families, as those between virtual machines", () => {
    expect([0, 16, 17, 38, 40].map((family) => decide(calls.socket, family))).toEqual(Array(5).fill(EAFNOSUPPORT));
  });

  test("kills a process that calls by the table of another architecture", () => {
    expect(decide(calls.read, 0, 0x40000003)).toBe(KILL);
  });
});

test("the second table of x86-64 does not go around the filter", () => {
  const decide = (call: number) =>
    interpret(seccompFilter("x64")!, { call, argument: 0, architecture: machines.x64.audit });
  expect(decide(0x40000000 + machines.x64.mount)).toBe(ENOSYS);
});

test("there is no filter for a machine whose calls are not known", () => {
  expect(seccompFilter("riscv64")).toBe(null);
});

/** Runs classic BPF as the kernel does: load a word, jump, return. */
function interpret(program: Buffer, data: { call: number; argument: number; architecture: number }): number {
  const words = new Map([
    [0, data.call],
    [4, data.architecture],
    [16, data.argument],
  ]);
  let accumulator = 0;
  for (let index = 0; index * 8 < program.length; index++) {
    const code = program.readUInt16LE(index * 8);
    const [jumpTrue, jumpFalse] = [program.readUInt8(index * 8 + 2), program.readUInt8(index * 8 + 3)];
    const operand = program.readUInt32LE(index * 8 + 4);
    if (code === 0x06) return operand;
    if (code === 0x20) accumulator = (words.get(operand) ?? Number.NaN) >>> 0;
    else if (code === 0x15) index += accumulator === operand ? jumpTrue : jumpFalse;
    else if (code === 0x35) index += accumulator >= operand ? jumpTrue : jumpFalse;
    else if (code === 0x45) index += (accumulator & operand) !== 0 ? jumpTrue : jumpFalse;
    else throw new Error(`unknown instruction ${code}`);
  }
  throw new Error("the program has no end");
}
