/**
 * Programs that try to get out of the Python sandbox, to stay in it, or to break it. After each, the next run works, in the
 * same worker: none of them got to the fork server.
 */
import { createSocket } from "node:dgram";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { homedir, networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createPythonSandbox } from "../../src/sandbox/python-sandbox.ts";
import type { Sandbox, SandboxLimits } from "../../src/sandbox/sandbox.ts";
import { descendants } from "./descendants.ts";
import { skipNote, skipReason } from "./python-availability.ts";

const repository = fileURLToPath(new URL("../..", import.meta.url));
const MIB = 2 ** 20;

/** `attempt(label, f)` prints the label when f does not raise: an empty output says that everything was held. */
const PRELUDE = `
import ctypes, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(label, act):
    try:
        act()
    except (OSError, PermissionError):
        return
    print("not held:", label)
def call(label, name, *arguments):
    if getattr(libc, name)(*arguments) != -1:
        print("not held:", label)
`;

describe.skipIf(skipReason !== null)(`a program in the python sandbox${skipNote}`, () => {
  let sandbox: Sandbox;
  let workers: number[];
  let folder: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "host-"));
    writeFileSync(join(folder, "canary.txt"), "secret of the host", { mode: 0o644 });
    sandbox = await createPythonSandbox({ numWorkers: 1 });
    workers = descendants(process.pid);
  });
  afterAll(async () => {
    await sandbox.close();
    rmSync(folder, { recursive: true });
  });
  afterEach(async () => {
    expect(await sandbox.run({ code: "print(1)" })).toMatchObject({ kind: "ok", output: "1\n" });
    expect(descendants(process.pid)).toEqual(workers);
  });

  const run = (code: string, limits: Partial<SandboxLimits> = {}) => sandbox.run({ code: PRELUDE + code, limits });
  const expectHeld = async (code: string) =>
    expect(await run(code)).toMatchObject({ kind: "ok", output: "", errorOutput: "" });

  test("cannot read the files of the host", async () => {
    const paths = [
      "/etc/passwd",
      "/etc/shadow",
      "/etc/hostname",
      homedir(),
      repository,
      folder,
      join(folder, "canary.txt"),
    ];
    const others = [
      "/root",
      "/home",
      "/var",
      "/run",
      "/sys",
      "/opt",
      "/boot",
      "/usr/bin/sh",
      "/usr/share",
      "/dev/shm/x",
      "/dev/sda",
      "/dev/mem",
      "/dev/kvm",
      "/dev/tty",
      "/dev/fuse",
      process.execPath,
    ];
    await expectHeld(`
for path in ${JSON.stringify([...paths, ...others])}:
    attempt(path, lambda: os.listdir(path) if os.path.isdir(path) else open(path).read())`);
  });

  test("finds no file of the host by walking through all there is", async () => {
    await expectHeld(`
for root, folders, files in os.walk("/"):
    folders[:] = [] if root in ("/proc", "/usr/lib", "/usr/lib64", "/usr/local/lib") else folders
    if "canary.txt" in files or "package.json" in files: print(root)`);
  });

  test("gets nowhere through /proc", async () => {
    await expectHeld(`
for pid in ("1", "self"):
    for path in ("root/etc/passwd", "root${folder}/canary.txt", "cwd/etc/passwd"):
        attempt(path, lambda: open("/proc/%s/%s" % (pid, path)).read())
for path in ("1/mem", "1/environ", "1/maps", "1/auxv", "1/stack", "kcore", "kmsg"):
    attempt(path, lambda: open("/proc/" + path, "rb").read(100))
for path in ("1/fd", "1/map_files", "1/task/1/fd"):
    attempt(path, lambda: os.listdir("/proc/" + path))
for path in ("sys/kernel/core_pattern", "sys/vm/overcommit_memory", "sys/user/max_user_namespaces", "sysrq-trigger", "1/oom_score_adj", "1/mem", "self/exe", "self/uid_map"):
    attempt(path, lambda: open("/proc/" + path, "w").write("1"))
attempt("namespace", lambda: os.open("/proc/1/ns/mnt", os.O_RDONLY))`);
  });

  test("sees no environment, no arguments and no name of the host", async () => {
    process.env.REROLL_TEST_SECRET = "secret of the environment";
    const own = await createPythonSandbox({ numWorkers: 1 });
    const code = `import os, socket, sys\nprint(sorted(os.environ), sys.argv, socket.gethostname(), os.getuid())`;
    const { output } = await own.run({ code });
    await own.close();
    delete process.env.REROLL_TEST_SECRET;
    const names = /\[(.*?)\]/.exec(output)?.[1]?.replaceAll("'", "").split(", ") ?? [];
    const known = ["HOME", "LANG", "LC_CTYPE", "PATH", "PWD", "PYTHONHASHSEED", "PYTHONUTF8", "MALLOC_ARENA_MAX"];
    const threads = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"];
    expect(names.length).toBeGreaterThan(5);
    expect(names.filter((name) => ![...known, ...threads].includes(name))).toEqual([]);
    const uid = process.getuid?.() === 0 ? 65534 : process.getuid?.();
    expect(output).toContain(`['solution.py'] sandbox ${uid}\n`);
  });

  test("cannot write outside its own /tmp", async () => {
    await expectHeld(`
for folder in ("/", "/usr", "/usr/lib", "/usr/local/lib", "/etc", "/dev", "/proc", "/lib", "/var", "${folder}", "${repository}"):
    attempt(folder, lambda: open(folder + "/written", "w"))
    attempt(folder, lambda: os.mkdir(folder + "/made"))
attempt("python", lambda: open(os.path.realpath(sys.executable), "r+b"))
attempt("chmod", lambda: os.chmod("/usr/lib", 0o777))
attempt("rename", lambda: os.rename("/tmp", "/tmp2"))
attempt("device", lambda: os.mknod("/tmp/disk", 0o60666, os.makedev(8, 0)))
attempt("link out", lambda: os.link("/etc/ld.so.cache", "/tmp/linked"))`);
  });

  test("cannot follow links out, nor plant one for the next run", async () => {
    await expectHeld(`
os.symlink("/", "/tmp/root"); os.symlink("${folder}", "/tmp/host"); os.symlink("/proc/1/root", "/tmp/server")
for path in ("root/etc/passwd", "host/canary.txt", "server/etc/passwd"):
    attempt(path, lambda: open("/tmp/" + path).read())`);
    expect(await run("print(os.listdir('/tmp'), os.listdir('/dev/shm'))")).toMatchObject({ output: "[] []\n" });
  });

  test("leaves no file to the next run, however it hides it", async () => {
    await run(`
os.makedirs("/tmp/deep" + "/d" * 500); os.mkdir("/tmp/locked"); open("/tmp/locked/file", "w").write("x"); os.chmod("/tmp/locked", 0)
open("/dev/shm/file", "w").write("x"); os.mkfifo("/tmp/pipe"); socket.socket(socket.AF_UNIX).bind("/tmp/socket")`);
    expect(await run("print(os.listdir('/tmp'), os.listdir('/dev/shm'))")).toMatchObject({ output: "[] []\n" });
  });

  test("finds nothing of earlier runs in its memory", async () => {
    const parts = ["needle", "in", "haystack"];
    const secret = `${parts.join("_")}=12345678`;
    await sandbox.run({ code: `x = ${JSON.stringify(secret)}\nprint(input(), x)`, stdin: `${secret}\n` });
    await sandbox.run({ code: `raise Exception(${JSON.stringify(secret)})`, stdin: secret.repeat(10_000) });
    const scan = `
import re
needle = re.compile("_".join(${JSON.stringify(parts)}).encode() + rb"=\\d{8}")
own = "_".join(${JSON.stringify(parts)}) + "=" + "1" * 8
found, regions = 0, 0
for line in open("/proc/self/maps"):
    span, rights, *_, name = line.split(maxsplit=5) + [""]
    if not rights.startswith("rw") or "[v" in line: continue
    low, high = (int(end, 16) for end in span.split("-"))
    regions += 1
    found += len(needle.findall(ctypes.string_at(low, high - low)))
print(regions > 5, found)`;
    const { output } = await run(scan);
    const [hasLooked, found] = output.trim().split(" ");
    expect(hasLooked).toBe("True");
    // Its own copies, in one or two buffers, show that the search finds what is there; they end in 11111111.
    expect(Number(found)).toBeGreaterThanOrEqual(1);
    const onlyOthers = scan.replace('rb"=\\d{8}"', 'rb"=1234567[8]"');
    expect((await run(onlyOthers)).output).toBe("True 0\n");
  });

  test("has no file open but its input, outputs and report", async () => {
    expect(
      await run("print(sorted(map(int, os.listdir('/proc/self/fd')))[:4], len(os.listdir('/proc/self/fd')))"),
    ).toMatchObject({
      output: "[0, 1, 2, 3] 5\n",
    });
  });

  test("reaches nothing by TCP, UDP, DNS and UNIX sockets", async () => {
    const seen: string[] = [];
    const tcp = await listen(
      createServer((socket) => {
        seen.push("tcp");
        socket.destroy();
      }),
      0,
      "0.0.0.0",
    );
    const unix = await listen(
      createServer((socket) => {
        seen.push("unix");
        socket.destroy();
      }),
      join(folder, "socket"),
    );
    const udp = createSocket("udp4", () => void seen.push("udp"));
    await new Promise<void>((resolve) => udp.bind(0, "0.0.0.0", resolve));
    const addresses = Object.values(networkInterfaces()).flatMap((all) =>
      (all ?? []).filter(({ family }) => family === "IPv4").map(({ address }) => address),
    );
    await expectHeld(`
for address in ${JSON.stringify([...addresses, "127.0.0.1", "8.8.8.8", "169.254.169.254"])}:
    attempt("tcp " + address, lambda: socket.create_connection((address, ${portOf(tcp)}), timeout=1))
attempt("dns", lambda: socket.getaddrinfo("example.com", 80))
attempt("dns by hand", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("8.8.8.8", 53)))
attempt("unix", lambda: socket.socket(socket.AF_UNIX).connect("${join(folder, "socket")}"))
for family in (socket.AF_NETLINK, socket.AF_PACKET, 40, 38):
    attempt("family %d" % family, lambda: socket.socket(family, socket.SOCK_DGRAM))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
for address in ${JSON.stringify([...addresses, "127.0.0.1"])}:
    try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (address, ${udp.address().port}))
    except OSError: pass`);
    expect(seen).toEqual([]);
    await Promise.all([tcp, unix].map((server) => new Promise((resolve) => server.close(resolve))));
    await new Promise<void>((resolve) => udp.close(() => resolve()));
  });

  test("cannot mount, make namespaces, change root or trace", async () => {
    await expectHeld(`
call("mount", "mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None)
call("remount", "mount", None, b"/", None, 32 | 4096, None)
call("umount", "umount2", b"/tmp", 2)
call("chroot", "chroot", b"/tmp")
for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000, 0x8000000, 0x4000000, 0x2000000):
    call("unshare %x" % flag, "unshare", flag)
call("ptrace traceme", "ptrace", 0, 0, 0, 0)
call("ptrace attach", "ptrace", 16, 1, 0, 0)
call("setuid", "setuid", 0)
call("personality", "personality", 0x40000)
call("memfd", "memfd_create", b"x", 0)
call("shmget", "shmget", 1, 4096, 0o1777)
call("sethostname", "sethostname", b"x", 1)
call("reboot", "reboot", 0x1234567)
if ${process.arch === "x64" ? "True" : "False"}:
    call("clone into a user namespace", "syscall", 56, 0x10000000 | 17, 0, 0, 0, 0)
    call("clone3", "syscall", 435, 0, 0)
    call("io_uring", "syscall", 425, 1, ctypes.create_string_buffer(200))
    call("getpid by the x32 table", "syscall", 0x40000000 + 39)
print(*[line.strip() for line in open("/proc/self/status") if line.startswith("Cap") and int(line.split()[1], 16) != 0 and not line.startswith("CapBnd")], end="")`);
  });

  test("cannot raise its own limits", async () => {
    await expectHeld(`
import resource
for name in ("AS", "CPU", "NPROC", "FSIZE", "NOFILE", "CORE"):
    try:
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (2**40, 2**40))
        print("not held:", name)
    except (ValueError, OSError): pass`);
  });

  test("cannot signal the server, its parent or anyone else", async () => {
    await run(`
for pid in [*range(-40, 0), os.getppid(), *range(1, 3000)]:
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP):
        try: os.kill(pid, number)
        except OSError: pass`);
  });

  test("is held when it forks without end", async () => {
    const result = await run("while True:\n  try: os.fork()\n  except OSError: pass", { wallMs: 1000 });
    expect(result.kind).toBe("timeout");
  });

  test("has at most 32 processes and threads", async () => {
    const processes =
      "n = 1\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(60)\n    n += 1\nexcept OSError: print(n)";
    expect(await run(processes)).toMatchObject({ kind: "ok", output: "32\n" });
    const threads = `import threading\nn = 1\ntry:\n  while True:\n    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n    n += 1\nexcept RuntimeError: print(n)`;
    expect(await run(threads)).toMatchObject({ kind: "ok", output: "32\n" });
  });

  test("leaves no process behind", async () => {
    const daemon = `
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for each in range(4): os.close(each)
        time.sleep(600)
    os._exit(0)
time.sleep(0.05); print("started")`;
    expect(await run(daemon)).toMatchObject({ kind: "ok", output: "started\n" });
    expect(descendants(process.pid)).toEqual(workers);
  });

  test.each([
    ["at once", "x = bytearray(10 ** 10)"],
    ["bit by bit", "x = []\nwhile True: x.append(bytearray(10 ** 6))"],
    [
      "in shared mappings",
      "import mmap\nx = []\nwhile True:\n  m = mmap.mmap(-1, 10 ** 7); m.write(b'x' * 10 ** 7); x.append(m)",
    ],
  ])("is held when it takes memory %s", async (_, code) => {
    expect(["memory", "failed"]).toContain((await run(code, { memoryBytes: 128 * MIB })).kind);
  });

  test.each([
    ["of their own", "x = bytearray(60 * 2 ** 20)"],
    ["that is shared", "import mmap; x = mmap.mmap(-1, 60 * 2 ** 20); x.write(b'x' * (60 * 2 ** 20))"],
  ])("is held when its processes together take memory %s", async (_, take) => {
    const code = `for _ in range(16):\n  if os.fork() == 0:\n    ${take}; time.sleep(60)\ntime.sleep(60)`;
    expect((await run(code, { memoryBytes: 256 * MIB })).kind).toBe("memory");
  });

  test("is held when it writes files without end", async () => {
    const code = `
n = 0
try:
    while True:
        open("/tmp/%d" % n, "wb").write(bytes(2 ** 20)); n += 1
except OSError: print(n)`;
    expect(await run(code)).toMatchObject({ kind: "ok", output: "64\n" });
    const names = `n = 0\ntry:\n  while True:\n    open("/tmp/%d" % n, "w").close(); n += 1\nexcept OSError: print(n < 5000)`;
    expect(await run(names)).toMatchObject({ kind: "ok", output: "True\n" });
  });

  test("is ended when it closes its outputs and goes on", async () => {
    const code = "for each in range(4): os.close(each)\nwhile True: pass";
    expect((await run(code, { wallMs: 300 })).kind).toBe("timeout");
  });

  test("is ended at the limit of processor time when the wall would allow more", async () => {
    const own = await createPythonSandbox({ numWorkers: 1, limits: { cpuMs: 1000, wallMs: 60_000 } });
    expect((await own.run({ code: "while True: pass" })).kind).toBe("timeout");
    await own.close();
  });
});

async function listen(server: Server, ...where: [number, string] | [string]): Promise<Server> {
  await new Promise<void>((resolve) =>
    typeof where[0] === "number" ? server.listen(where[0], where[1], resolve) : server.listen(where[0], resolve),
  );
  return server;
}

function portOf(server: Server): number {
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}
