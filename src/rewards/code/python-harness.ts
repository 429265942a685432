/**
 * The Python program that runs a solution and its tests in one process, and reports on file descriptor 3.
 *
 * Each line of the report starts with a word that nobody can guess, so that what a solution writes there does not count, and
 * neither does a solution that ends the process with status 0. A solution that searches the memory of its own process could
 * still find the word: where that matters, use standard input or calls, whose answers never enter the sandbox.
 * The limit of one test is in processor time, which a busy machine does not shorten; the sandbox limits the wall time of all.
 */
import type { HarnessJob } from "./harness-job.ts";

/** A solution is not loaded as `__main__`, so that a part for the command line does not run. */
export function pythonHarness(job: HarnessJob): string {
  return `${harnessSource}\nrun_tests(${JSON.stringify(JSON.stringify(job))})\n`;
}

const harnessSource = String.raw`
def run_tests(job):
    import json, linecache, os, signal, sys, traceback
    job = json.loads(job)
    space, write, dumps, leave, set_timer = globals(), os.write, json.dumps, os._exit, signal.setitimer
    del space["run_tests"]
    space["__name__"] = "solution"
    sys.modules["solution"] = sys.modules["__main__"]

    class TooLong(BaseException):
        pass

    def ring(number, frame):
        raise TooLong()

    def send(**line):
        data = (job["secret"] + dumps(line, allow_nan=False, default=to_plain) + "\n").encode()
        while data:
            data = data[write(3, data):]

    def to_plain(value):
        if hasattr(value, "tolist"):
            return value.tolist()
        raise TypeError("returned a " + type(value).__name__ + ", which JSON cannot hold")

    def load(name, text):
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec", dont_inherit=True), space)

    def describe(error):
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "tests.py"]
        return (frames[-1].line + ": " + text) if frames and frames[-1].line else text

    def attempt(act):
        set_timer(signal.ITIMER_PROF, job["testTimeoutMs"] / 1000)
        try:
            act()
            return True
        except TooLong:
            error = "ran longer than %d ms" % job["testTimeoutMs"]
        except BaseException as thrown:
            error = describe(thrown)
        finally:
            set_timer(signal.ITIMER_PROF, 0)
        send(kind="error", error=error[-2000:])
        return False

    def check(text):
        exec(compile(text, "check.py", "exec", dont_inherit=True), space)
        send(kind="passed")

    def call(arguments):
        name = job["functionName"]
        target = space[name] if name in space else getattr(space["Solution"](), name)
        send(kind="value", value=target(*arguments))

    signal.signal(signal.SIGPROF, ring)
    try:
        load("solution.py", job["solution"])
        load("tests.py", job["setup"])
    except BaseException as error:
        send(kind="broken", error=describe(error)[-2000:])
        leave(0)
    for text in job["checks"]:
        if not attempt(lambda: check(text)) and job["stopsEarly"]:
            leave(0)
    for arguments in job["calls"]:
        if not attempt(lambda: call(arguments)) and job["stopsEarly"]:
            leave(0)
    leave(0)
`;
