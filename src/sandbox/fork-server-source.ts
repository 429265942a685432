/**
 * The Python program that stands ready inside the sandbox and forks once per run.
 *
 * In, on standard input: a header (see `requestHeader` in python-worker.ts), then the service, the code and the standard input of the
 * program, then the examiner. Out, on standard output: one byte when it is ready, then per run a header and three texts: output, error
 * output, report.
 *
 * It is the first process of a pid namespace, and the only one with a capability (CAP_SYS_ADMIN, of the sandbox's own user
 * namespace). Each run is the first process of a pid, a mount and an ipc namespace of its own: its end is the end of all that it
 * started, it can signal nobody else, and its /tmp and /dev/shm are a file system that is gone with it. Before the code runs, the
 * child gives up the capability, takes its limits and loads the seccomp filter. If any of that fails, the code does not run.
 * What passes through the server lies in buffers that are wiped, so that a fork holds nothing of the runs before it. An examiner is
 * read only after the program it examines was forked, so that it has never been in the memory of that program.
 *
 * As the first process of its namespace, a program gets no signal that it has no handler for. Its own end, and ours, still work.
 */

/** How the server says that a run ended; the index is the byte it sends. */
export const endings = ["exited", "timeout", "memory", "output-limit", "not-isolated"] as const;

/**
 * Run with: python3 -c source, the seccomp filter in hexadecimal, modules to import first, separated by
 * commas, and the source of further modules by name, as JSON.
 */
export const forkServerSource = String.raw`
import atexit, builtins, ctypes, gc, importlib, json, linecache, os, resource, select, signal, socket, struct, sys, threading, time, traceback, types

EXITED, TIMEOUT, MEMORY, OUTPUT_LIMIT, NOT_ISOLATED = range(5)
REQUEST, RESPONSE = struct.Struct("<IIIIIIQQII"), struct.Struct("<BiIIII")
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID = 0x00020000, 0x08000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND = 2, 4, 8, 4096
PR_SET_DUMPABLE, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 4, 22, 2
FIRST_LOOK, LOOK_EVERY = 0.05, 0.02

libc = ctypes.CDLL(None, use_errno=True)
filter_bytes = ctypes.create_string_buffer(bytes.fromhex(sys.argv[1]))

class FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what + ": " + os.strerror(ctypes.get_errno()))

def main():
    requests, responses = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    check(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")
    for name in filter(None, sys.argv[2].split(",")):
        importlib.import_module(name)
    for name, text in json.loads(sys.argv[3]).items():
        sys.modules[name] = module = types.ModuleType(name)
        exec(compile(text, name + ".py", "exec", dont_inherit=True), module.__dict__)
    sys.path[:] = [folder for folder in sys.path if folder]
    expect_process_limit()
    own_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
    own_memory = memory_of(os.getpid())
    gc.collect()
    gc.freeze()
    os.write(responses, b"!")
    header = bytearray(REQUEST.size)
    while fill(requests, header):
        serve(requests, responses, header, own_namespace, own_memory)

# Limits of processes do not hold for root, also where root has another name inside.
def expect_process_limit():
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        try:
            os.fork()
        except OSError:
            os._exit(0)
        os._exit(1)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("the kernel does not limit the number of processes of this user, who is root. Run as an ordinary user")

def fill(source, target):
    view = memoryview(target)
    while len(view) > 0:
        size = os.readv(source, [view])
        if size == 0:
            return False
        view = view[size:]
    return True

def take(source, size):
    data = bytearray(size)
    if not fill(source, data):
        os._exit(0)
    return data

def wipe(data):
    data[:] = bytes(len(data))

def serve(requests, responses, header, own_namespace, own_memory):
    *sizes, num_examiner, wall_ms, cpu_seconds, memory, tmp_bytes, output_bytes, processes = REQUEST.unpack(header)
    is_examined = num_examiner > 0
    limits = (tmp_bytes, cpu_seconds, memory + own_memory[0], processes + 1 + is_examined)
    pipes = [os.pipe() for _ in range(3)]
    sources, (out, err, report) = [source for source, _ in pipes], [target for _, target in pipes]
    ready_source, ready = os.pipe()
    to_program, to_examiner = (end.detach() for end in socket.socketpair()) if is_examined else (report, None)
    service, code, text = (take(requests, size) for size in sizes)
    stdin = os.memfd_create("stdin")
    send(stdin, [text])
    os.lseek(stdin, 0, os.SEEK_SET)
    children = [start(own_namespace, service, code, (stdin, out, err, to_program), ready, limits)]
    for data in (service, code, text):
        wipe(data)
    os.close(stdin)
    if is_examined:
        os.close(to_program)
        examiner = take(requests, num_examiner)
        null = os.open("/dev/null", os.O_RDONLY)
        children.append(start(own_namespace, b"", examiner, (null, out, err, report, to_examiner), ready, limits))
        wipe(examiner)
        os.close(null)
        os.close(to_examiner)
    for each in (out, err, report, ready):
        os.close(each)
    # One byte of each child says that it has given up all it must not have.
    is_isolated = all(os.read(ready_source, 1) == b"!" for _ in children)
    os.close(ready_source)
    begin = time.monotonic()
    outputs = Outputs(sources, output_bytes)
    ending = watch(children[-1], outputs, begin + wall_ms / 1000, memory, own_memory[1])
    # The examiner first: it is not to report the end that we make of the program.
    for child in reversed(children):
        os.kill(child, signal.SIGKILL)
    for child in children:
        _, status, usage = os.wait4(child, 0)
    took_ms = int((time.monotonic() - begin) * 1000)
    outputs.drain()
    exit_code = os.waitstatus_to_exitcode(status)
    if ending == EXITED and outputs.is_over():
        ending = OUTPUT_LIMIT
    if ending == EXITED and exit_code == -signal.SIGKILL and usage.ru_utime + usage.ru_stime >= 0.5 * cpu_seconds:
        ending = TIMEOUT
    texts = outputs.texts()
    if not is_isolated:
        ending = NOT_ISOLATED
    send(responses, [RESPONSE.pack(ending, exit_code, took_ms, *map(len, texts)), *texts])
    for each in texts:
        wipe(each)

# Forks the first process of a pid namespace of its own, which gets the files as descriptors 0, 1, 2, ...
def start(own_namespace, service, code, files, ready, limits):
    check(libc.setns(own_namespace, CLONE_NEWPID), "setns")
    check(libc.unshare(CLONE_NEWPID), "unshare(CLONE_NEWPID)")
    child = os.fork()
    if child == 0:
        become_program(service, code, files, ready, limits)
    return child

# What a run writes. The buffers are kept, because a buffer that moves would leave copies behind.
class Outputs:
    buffers = [bytearray(), bytearray(), bytearray()]

    def __init__(self, sources, limit):
        self.sources, self.limit, self.sizes = sources, limit, [0, 0, 0]
        for source in sources:
            os.set_blocking(source, False)
        if len(self.buffers[0]) < limit + 1:
            self.buffers[:] = [bytearray(limit + 1) for _ in sources]

    def is_over(self):
        return sum(self.sizes) > self.limit

    # The number of bytes that came: 0 at the end, -1 when there is nothing yet.
    def collect(self, source):
        index = self.sources.index(source)
        start = self.sizes[index]
        room = min(65536, self.limit + 1 - sum(self.sizes))
        if room <= 0:
            return 0
        try:
            size = os.readv(source, [memoryview(self.buffers[index])[start:start + room]])
        except BlockingIOError:
            return -1
        self.sizes[index] += size
        return size

    def drain(self):
        for source in self.sources:
            while self.collect(source) > 0:
                pass
            os.close(source)

    def texts(self):
        return [memoryview(buffer)[:size] for buffer, size in zip(self.buffers, self.sizes)]

def watch(child, outputs, deadline, memory, own_memory):
    handle = os.pidfd_open(child)
    poll = select.poll()
    for each in (handle, *outputs.sources):
        poll.register(each, select.POLLIN)
    next_look = time.monotonic() + FIRST_LOOK
    try:
        while True:
            now = time.monotonic()
            if now >= deadline:
                return TIMEOUT
            if now >= next_look:
                next_look = now + LOOK_EVERY
                if used_memory(own_memory) > memory:
                    return MEMORY
            for ready, _ in poll.poll(max(1, (min(deadline, next_look) - now) * 1000)):
                if ready == handle:
                    return EXITED
                if outputs.collect(ready) == 0:
                    poll.unregister(ready)
            if outputs.is_over():
                return OUTPUT_LIMIT
    finally:
        os.close(handle)

def send(target, parts):
    for part in parts:
        view = memoryview(part)
        while len(view) > 0:
            view = view[os.write(target, view):]

# The address space of a process, and the memory that only processes account for: files are limited where they lie.
def memory_of(pid):
    with open("/proc/%d/status" % pid, "rb", buffering=0) as file:
        lines = dict(line.split(b":", 1) for line in file.read().splitlines())
    size, anonymous, shared = (int(lines.get(name, b"0 kB").split()[0]) * 1024 for name in (b"VmSize", b"RssAnon", b"RssShmem"))
    return size, anonymous + shared

def used_memory(own_memory):
    total = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            try:
                total += max(0, memory_of(int(name))[1] - own_memory)
            except OSError:
                pass
    return total

def become_program(service, code, files, ready, limits):
    try:
        service, source = bytes(service), bytes(code)
        ready = isolate(files, ready, *limits)
        os.write(ready, b"!")
        os.close(ready)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        os._exit(1)
    os._exit(execute(source) if service == b"" else execute(service, source))

def isolate(files, ready, tmp_bytes, cpu_seconds, memory, processes):
    kept = [os.dup(each) for each in (*files, ready)]
    for target, each in enumerate(kept):
        os.dup2(each, target)
    os.closerange(len(kept), 1024)
    check(libc.unshare(CLONE_NEWNS | CLONE_NEWIPC), "unshare")
    options = b"size=%d,nr_inodes=4096,mode=700" % tmp_bytes
    check(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options), "mount /tmp")
    check(libc.mount(b"/tmp", b"/dev/shm", None, MS_BIND, None), "mount /dev/shm")
    os.chdir("/tmp")
    for name, value in (
        ("AS", memory), ("CPU", cpu_seconds), ("FSIZE", tmp_bytes), ("NPROC", processes), ("NOFILE", 256),
        ("CORE", 0), ("MEMLOCK", 0), ("MSGQUEUE", 0),
    ):
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    check(libc.capset(header, nothing), "capset")
    program = FilterProgram((len(filter_bytes) - 1) // 8, ctypes.addressof(filter_bytes))
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0), "seccomp")
    return len(files)

# The code of a service finds what it serves in its variable source.
def execute(source, served=None):
    main_module = types.ModuleType("__main__")
    main_module.__builtins__ = builtins
    if served is not None:
        main_module.source = served.decode()
    sys.modules["__main__"] = main_module
    sys.argv = ["solution.py"]
    sys.path.insert(0, "/tmp")
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)
    # A fork seeds it anew, from chance.
    if "random" in sys.modules:
        sys.modules["random"].seed(0)
    status = 0
    try:
        exec(compile(source, "solution.py", "exec", dont_inherit=True), main_module.__dict__)
    except BaseException as error:
        status = end_status(error, source)
    try:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
    except BaseException as error:
        status = end_status(error, source)
    for stream in (sys.stdout, sys.__stdout__, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    return status

def end_status(error, source):
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 255
        sys.stderr.write(str(error.code) + "\n")
        return 1
    text = source.decode("utf-8", "replace")
    linecache.cache["solution.py"] = (len(text), None, text.splitlines(True), "solution.py")
    frames = error.__traceback__ and error.__traceback__.tb_next
    traceback.print_exception(type(error), error, frames, limit=-8)
    return 1

main()
`;
