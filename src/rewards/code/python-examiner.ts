/**
 * The Python program that runs tests against a solution in another process, and reports on file descriptor 3.
 *
 * It never executes a line of the solution. What the tests call are stand-ins that ask the service (python-service.ts) and get copies
 * of plain data. Objects of the solution stay there: a test may call them, read and set their attributes, index, iterate, measure
 * and print them, but neither compare nor order them nor compute with them, because those answers would be the solution's own verdict.
 * A name belongs to the solution only when neither the builtins, the prefix of the task nor the tests define it.
 */

import { stringifyExact } from "./exact-json.ts";
import type { ExaminerJob } from "./examiner-job.ts";

/** The program of an examiner. JSON in a string is a literal of Python too. */
export function pythonExaminer(job: ExaminerJob): string {
  return `import reroll_examiner; reroll_examiner.examine(${JSON.stringify(stringifyExact(job))})\n`;
}

/** The module `reroll_examiner`. */
export const pythonExaminerSource = String.raw`
import ast, builtins, collections, importlib, json, linecache, os, signal, sys, traceback
from reroll_wire import Broken, Wire

class TooLong(BaseException):
    pass

class SolutionObject:
    __slots__ = ("__number", "__type_name")

    def __init__(self, number, type_name):
        object.__setattr__(self, "_SolutionObject__number", number)
        object.__setattr__(self, "_SolutionObject__type_name", type_name)

    def __getattr__(self, name):
        return ask("get", self, name)

    def __setattr__(self, name, value):
        ask("set", self, name, value)

    def __call__(self, *arguments, **named):
        return ask("call", self, list(arguments), named)

    def __getitem__(self, key):
        return ask("item", self, key)

    def __setitem__(self, key, value):
        ask("setitem", self, key, value)

    def __iter__(self):
        return ask("iter", self)

    def __next__(self):
        return ask("next", self)

    def __len__(self):
        return ask("len", self)

    def __bool__(self):
        return ask("truth", self) is True

    def __str__(self):
        return ask("str", self)

    def __repr__(self):
        return ask("repr", self)

    def __instancecheck__(self, value):
        return ask("isinstance", self, value)

    def __eq__(self, other):
        if isinstance(other, SolutionObject):
            raise TypeError("objects of the solution cannot be compared; compare their attributes")
        return False

    __contains__ = __hash__ = None

number_of = SolutionObject._SolutionObject__number.__get__
type_name_of = SolutionObject._SolutionObject__type_name.__get__
callbacks, error_classes, is_late = [], {}, False

def refer(value):
    if type(value) is SolutionObject:
        return "object", number_of(value)
    if not callable(value):
        raise TypeError("a " + type(value).__name__ + " of the tests cannot be passed to the solution")
    if value not in callbacks:
        callbacks.append(value)
    return "callback", callbacks.index(value)

def referred(tag, body):
    if tag == "callback":
        return callbacks[body]
    number, type_name = body
    if tag != "object" or type(number) is not int or type(type_name) is not str:
        raise ValueError()
    return SolutionObject(number, type_name)

wire = Wire(4, refer, referred)

# Asks the service. Until the answer comes, the solution may call functions that it was given.
def ask(operation, *operands):
    if wire.is_broken:
        raise Broken()
    wire.send([operation, *map(wire.encode, operands)])
    while True:
        kind, *parts = reply()
        if kind == "value" and 1 <= len(parts) <= 2:
            result = wire.decode(parts[0])
            if operation == "call" and len(parts) == 2:
                take_changes(operands[1], parts[1])
            return result
        if kind == "names" and operation == "names":
            return parts[0]
        if kind == "raise" and len(parts) == 2:
            raise error_of(parts[0], wire.decode(parts[1]), operation)
        if kind == "timeout":
            raise_late()
        if kind != "callback" or len(parts) != 3:
            wire.fail()
        call_back(*parts)

def reply():
    message = wire.receive()
    if type(message) is not list or len(message) == 0:
        wire.fail()
    return message

def call_back(number, arguments, named):
    try:
        target = referred("callback", number)
        arguments, named = wire.decode(arguments), wire.decode(named)
        answer = ["result", wire.encode(target(*arguments, **named))]
    except Exception as error:
        answer = ["error", type(error).__name__, str(error)]
    wire.send(answer)

# Arguments that the solution changed in place change here too, in the same objects.
def take_changes(arguments, changes):
    try:
        for index, change in changes:
            replace(arguments[index], wire.decode(change))
    except (TypeError, ValueError, IndexError):
        wire.fail()

def replace(old, new):
    if type(old) is not type(new):
        return new
    if type(old) in (list, collections.deque, bytearray):
        items = [replace(*pair) for pair in zip(old, new)] + list(new)[len(old):]
        old.clear()
        old.extend(items)
    elif type(old) is set:
        old.clear()
        old.update(new)
    elif type(old) is dict:
        items = {key: replace(old[key], value) if key in old else value for key, value in new.items()}
        old.clear()
        old.update(items)
    else:
        return new
    return old

# The class of an error by the names of its bases: a builtin one, or one made here that derives from it.
def error_class(names):
    name = names[0] if len(names) > 0 and type(names) is list and type(names[0]) is str else "Exception"
    builtin = getattr(builtins, name, None)
    if isinstance(builtin, type) and issubclass(builtin, BaseException):
        return builtin
    if name not in error_classes:
        error_classes[name] = type(name, (error_class(names[1:20]),), {})
    return error_classes[name]

def error_of(names, arguments, operation):
    kind = error_class(names)
    # As in a generator: outside of next() it would end a loop of the test as if all were well.
    if issubclass(kind, (StopIteration, StopAsyncIteration)) and operation != "next":
        return RuntimeError("the solution raised StopIteration")
    try:
        return kind(*arguments)
    except Exception:
        return RuntimeError("the solution raised " + kind.__name__)

def raise_late(*_):
    global is_late
    is_late = True
    raise TooLong()

def describe(error):
    try:
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
    except BaseException:
        text = type(error).__name__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "tests.py"]
    return (frames[-1].line + ": " + text) if frames and frames[-1].line else text

def report(line):
    data = (json.dumps(line, allow_nan=False, default=refuse) + "\n").encode()
    while data:
        data = data[os.write(3, data):]

def refuse(value):
    kind = type_name_of(value) if type(value) is SolutionObject else type(value).__name__
    raise TypeError("returned a " + kind + ", which JSON cannot hold")

# A test counts only when the solution was there to the end of it, whatever the test caught.
def attempt(act, timeout_ms):
    global is_late
    is_late = False
    try:
        ask("begin", timeout_ms)
        signal.setitimer(signal.ITIMER_PROF, timeout_ms / 1000)
        line = act()
        signal.setitimer(signal.ITIMER_PROF, 0)
    except BaseException as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        line = {"kind": "error", "error": describe(error)[-2000:]}
    if is_late:
        line = {"kind": "error", "error": "ran longer than %d ms" % timeout_ms}
    if wire.is_broken:
        line = {"kind": "ended"}
    try:
        report(line)
    except (TypeError, ValueError, RecursionError) as error:
        line = {"kind": "error", "error": describe(error)[-2000:]}
        report(line)
    return line["kind"] in ("passed", "value")

# The prompt of a task ends inside a function; what it defines besides is part of the tests.
def run_prefix(text, space):
    for ending in ("", "\n    pass\n"):
        try:
            return exec(compile(text + ending, "prefix.py", "exec", dont_inherit=True), space)
        except SyntaxError:
            pass

# Names that the tests leave to the solution. A module is never the solution's, and neither is a builtin, unless nothing else is.
def find_names(texts, space, target):
    loaded, called, owners = set(), set(), set()
    for node in (node for text in texts for node in nodes_of(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            loaded.add(node.id)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owners.add(node.value.id)
    modules = {"np": "numpy", "pd": "pandas", **{name: name for name in (*getattr(sys, "stdlib_module_names", sys.builtin_module_names), "numpy", "pandas", "pytest")}}
    for name in owners - called - space.keys():
        if name in modules:
            loaded.discard(name)
            try:
                space[name] = importlib.import_module(modules[name])
            except ImportError:
                pass
    names = {name for name in loaded - space.keys() if not hasattr(builtins, name)}
    if target is not None:
        names.add(target)
    return sorted(names) or sorted(called - space.keys())

# A test that does not parse fails when it is run.
def nodes_of(text):
    try:
        return list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return []

def take_names(names, space):
    for name, kind, body in ask("names", names):
        if name in names:
            space[name] = error_class(body) if kind == "error" else wire.decode(body)

def start_checks(job, space):
    run_prefix(job["prefix"], space)
    space.pop(job["functionName"], None)
    text = job["setup"]
    take_names(find_names([text, *job["checks"]], space, job["functionName"]), space)
    linecache.cache["tests.py"] = (len(text), None, text.splitlines(True), "tests.py")
    exec(compile(text, "tests.py", "exec", dont_inherit=True), space)

def examine(text):
    job = json.loads(text)
    signal.signal(signal.SIGPROF, raise_late)
    space = {"__name__": "tests", "__builtins__": builtins}
    try:
        kind, *parts = reply()
        if kind == "broken" and len(parts) == 1:
            return report({"kind": "broken", "error": str(parts[0])[-2000:]})
        if job["kind"] == "checks":
            start_checks(job, space)
    except Broken:
        return report({"kind": "ended"})
    except BaseException as error:
        return report({"kind": "broken", "error": describe(error)[-2000:]})

    def check(text):
        exec(compile(text, "check.py", "exec", dont_inherit=True), space)
        return {"kind": "passed"}

    def call(arguments):
        return {"kind": "value", "value": ask("target", job["functionName"])(*arguments)}

    tests = [lambda text=text: check(text) for text in job["checks"]] + [lambda each=each: call(each) for each in job["calls"]]
    for act in tests:
        if not attempt(act, job["testTimeoutMs"]) and job["stopsEarly"]:
            return
`;
