/**
 * The system calls that a program in the Python sandbox may not make, as a classic BPF program for seccomp.
 *
 * Namespaces already keep a program from the files, the network and the processes of the host. This keeps it from the rarely
 * used parts of the kernel, where the holes are found, and from memory that no other limit counts: memfd, System V and POSIX
 * objects. A denied call fails with EPERM; clone3 with ENOSYS, so that the C library falls back to clone, whose flags a filter
 * can see. Sockets other than UNIX and IP are refused: AF_VSOCK, for one, does not care about network namespaces.
 */

const NAMESPACE_FLAGS = 0x7e020080;
const ALLOW = 0x7fff0000;
const KILL_PROCESS = 0x80000000;
const EPERM = 1;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;
/** x86-64 has a second table of calls from here on (x32). */
const FIRST_X32_CALL = 0x40000000;
const SOCKET_FAMILIES = [1, 2, 10];

/** Offsets in struct seccomp_data. Both machines are little-endian, so the low half of an argument comes first. */
const CALL_NUMBER = 0;
const ARCHITECTURE = 4;
const FIRST_ARGUMENT = 16;

/** Calls with the same number everywhere: newer than the split of the tables. */
const sharedCalls = {
  pidfd_getfd: 438,
  io_uring_setup: 425,
  io_uring_enter: 426,
  io_uring_register: 427,
  open_tree: 428,
  move_mount: 429,
  fsopen: 430,
  fsconfig: 431,
  fsmount: 432,
  fspick: 433,
  mount_setattr: 442,
  quotactl_fd: 443,
  memfd_secret: 447,
};

/** Denied calls: [x86-64, arm64]. */
const splitCalls: Readonly<Record<string, readonly [number, number]>> = {
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  kcmp: [312, 272],
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  unshare: [272, 97],
  setns: [308, 268],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  memfd_create: [319, 279],
  shmget: [29, 194],
  msgget: [68, 186],
  semget: [64, 190],
  mq_open: [240, 180],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  reboot: [169, 142],
  swapon: [167, 224],
  swapoff: [168, 225],
  acct: [163, 89],
  quotactl: [179, 60],
  personality: [135, 92],
  syslog: [103, 116],
  vmsplice: [278, 75],
  move_pages: [279, 239],
  migrate_pages: [256, 238],
  mbind: [237, 235],
  set_mempolicy: [238, 237],
  fanotify_init: [300, 262],
};

const machines = {
  x64: { architecture: 0xc000003e, column: 0, clone: 56, clone3: 435, socket: 41 },
  arm64: { architecture: 0xc00000b7, column: 1, clone: 220, clone3: 435, socket: 198 },
} as const;

/** The filter for a machine as Node names it, or null where the numbers of its calls are not known here. */
export function seccompFilter(architecture: string): Buffer | null {
  if (!(architecture === "x64" || architecture === "arm64")) return null;
  const machine = machines[architecture];
  const denied = [
    ...Object.values(sharedCalls),
    ...Object.values(splitCalls).map((numbers) => numbers[machine.column]),
  ];
  return Buffer.concat([
    load(ARCHITECTURE),
    ...unlessEqual(machine.architecture, returns(KILL_PROCESS)),
    load(CALL_NUMBER),
    ...(architecture === "x64" ? ifAtLeast(FIRST_X32_CALL, failsWith(ENOSYS)) : []),
    ...ifEqual(machine.clone3, failsWith(ENOSYS)),
    ...denied.flatMap((number) => ifEqual(number, failsWith(EPERM))),
    ...ifEqual(machine.clone, load(FIRST_ARGUMENT), ...ifAnyBit(NAMESPACE_FLAGS, failsWith(EPERM)), returns(ALLOW)),
    ...ifEqual(
      machine.socket,
      load(FIRST_ARGUMENT),
      ...SOCKET_FAMILIES.flatMap((family) => ifEqual(family, returns(ALLOW))),
      failsWith(EAFNOSUPPORT),
    ),
    returns(ALLOW),
  ]);
}

const load = (offset: number) => instruction(0x20, offset);
const returns = (action: number) => instruction(0x06, action);
const failsWith = (errno: number) => returns(0x00050000 | errno);

/** A jump says how many instructions to skip when its test holds, and when it does not. */
const ifEqual = (value: number, ...body: Buffer[]) => [instruction(0x15, value, 0, body.length), ...body];
const unlessEqual = (value: number, ...body: Buffer[]) => [instruction(0x15, value, body.length, 0), ...body];
const ifAtLeast = (value: number, ...body: Buffer[]) => [instruction(0x35, value, 0, body.length), ...body];
const ifAnyBit = (bits: number, ...body: Buffer[]) => [instruction(0x45, bits, 0, body.length), ...body];

/** struct sock_filter: code, jump if true, jump if false, operand. */
function instruction(code: number, operand: number, jumpTrue = 0, jumpFalse = 0): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt16LE(code, 0);
  bytes.writeUInt8(jumpTrue, 2);
  bytes.writeUInt8(jumpFalse, 3);
  bytes.writeUInt32LE(operand >>> 0, 4);
  return bytes;
}
