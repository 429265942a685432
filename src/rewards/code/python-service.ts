/**
 * The Python program beside a solution: loads it, and does what the examiner asks of it.
 *
 * The solution can replace any part of this, for it runs in the same process. All it gains is to answer with other data, as it could
 * by returning it. It never holds a test or an expected value.
 */

/** What the examined program runs, with the solution in its variable `source`. */
export const pythonServiceStart = "import reroll_service; reroll_service.serve(source)";

/** The module `reroll_service`. It loads a solution not as `__main__`, so that a part for the command line does not run. */
export const pythonServiceSource = `
import builtins, collections, linecache, operator, os, signal, sys, traceback, types
from reroll_wire import Broken, Wire, plain

def make_service(source):
    module = types.ModuleType("solution")
    space = module.__dict__
    objects, numbers, is_called = [], {}, False

    MUTABLE = (list, dict, set, bytearray, collections.deque)

    class TooLong(BaseException):
        pass

    def ring(number, frame):
        if is_called:
            raise TooLong()

    class Callback:
        def __init__(self, number):
            self.number = number

        def __call__(self, *arguments, **named):
            wire.send(["callback", self.number, wire.encode(arguments), wire.encode(named)])
            while True:
                kind, *operands = wire.receive()
                if kind == "result":
                    return wire.decode(operands[0])
                if kind == "error":
                    raise getattr(builtins, operands[0], Exception)(operands[1])
                answer(kind, operands)

    def refer(value):
        if type(value) is Callback:
            return "callback", value.number
        if id(value) not in numbers:
            numbers[id(value)] = len(objects)
            objects.append(value)
        return "object", [numbers[id(value)], type(value).__name__]

    def referred(tag, number):
        return objects[number] if tag == "object" else Callback(number)

    # The result, and the arguments that were changed in place.
    def call(target, arguments, named):
        before = [(index, each, encoded_or_none(each)) for index, each in enumerate(arguments) if isinstance(each, MUTABLE)]
        result = wire.encode(target(*arguments, **named))
        after = [(index, encoded_or_none(each), old) for index, each, old in before]
        return ["value", result, [[index, new] for index, new, old in after if new != old and new is not None]]

    def encoded_or_none(value):
        try:
            return wire.encode(value)
        except Exception:
            return None

    # What a test may see of an error: its class by the names of its bases, and its arguments.
    def describe(error):
        try:
            arguments = wire.encode(list(error.args))
        except Exception:
            arguments = [type(error).__name__]
        return ["raise", names_of(type(error)), arguments]

    def names_of(kind):
        return [base.__name__ for base in kind.__mro__ if issubclass(base, BaseException)]

    def look_up(name):
        value = space[name]
        if isinstance(value, type) and issubclass(value, BaseException):
            return ["error", names_of(value)]
        return ["value", wire.encode(value)]

    # The function itself, or the method of a class Solution.
    def target_of(name):
        if name not in space and "Solution" not in space:
            raise NameError("name '" + name + "' is not defined")
        return ["value", wire.encode(space[name] if name in space else getattr(space["Solution"](), name))]

    def begin(milliseconds):
        signal.setitimer(signal.ITIMER_PROF, milliseconds / 1000)
        return ["value", None]

    operations = {
        "names": lambda names: ["names", [[name, *look_up(name)] for name in names if name in space]],
        "target": target_of,
        "begin": begin,
        "call": call,
        "get": lambda target, name: ["value", wire.encode(getattr(target, name))],
        "set": lambda target, name, value: ["value", setattr(target, name, value)],
        "item": lambda target, key: ["value", wire.encode(target[key])],
        "setitem": lambda target, key, value: ["value", operator.setitem(target, key, value)],
        "iter": lambda target: ["value", {"object": refer(iter(target))[1]}],
        "next": lambda target: ["value", wire.encode(next(target))],
        "len": lambda target: ["value", len(target)],
        "truth": lambda target: ["value", bool(target)],
        "str": lambda target: ["value", plain(str(target))],
        "repr": lambda target: ["value", plain(repr(target))],
        "isinstance": lambda kind, value: ["value", isinstance(value, kind)],
    }

    def answer(kind, operands):
        nonlocal is_called
        outer = is_called
        try:
            is_called = True
            message = operations[kind](*wire.decode(operands))
        except TooLong:
            message = ["timeout"]
        except Broken:
            raise
        except BaseException as error:
            message = describe(error)
        finally:
            is_called = outer
        try:
            wire.send(message)
        except ValueError as error:
            wire.send(describe(error))

    def load():
        linecache.cache["solution.py"] = (len(source), None, source.splitlines(True), "solution.py")
        exec(compile(source, "solution.py", "exec", dont_inherit=True), space)

    wire = Wire(3, refer, referred)
    sys.modules["solution"] = sys.modules["__main__"] = module
    signal.signal(signal.SIGPROF, ring)
    try:
        load()
        wire.send(["ready"])
    except BaseException as error:
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
        wire.send(["broken", text[-2000:]])

    def answer_all():
        while True:
            kind, *operands = wire.receive()
            answer(kind, operands)

    return answer_all

# A peer that ended is the end of the service.
def serve(source):
    try:
        make_service(source)()
    except Broken:
        os._exit(0)
`;
