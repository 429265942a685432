/**
 * How Python values pass between a solution and its tests: as JSON in frames, copied by type.
 *
 * The source below runs on both sides. Whatever is not plain data stays where it is and passes as a number: objects of the solution
 * (`object`) and functions of the tests (`callback`). Decoding builds new values of the builtin types from the text alone, so that
 * nothing a solution overrides - equality, iteration, subclasses, its own JSON encoder - reaches the tests.
 */

/** The module `reroll_wire`: `Wire`, one end of the channel, and the exception `Broken` for a peer that ended or breaks the format. */
export const pythonWireSource = `
import collections, datetime, decimal, fractions, json, math, os, struct

MAX_BYTES, MAX_DEPTH, SAFE = 2 ** 24, 200, 2 ** 53
HEADER = struct.Struct("<I")

class Broken(BaseException):
    pass

# Values that are rebuilt from a few parts: tag, type, parts of a value, value of its parts.
COMPOSED = (
    ("tuple", tuple, tuple.__iter__, tuple),
    ("set", set, set.__iter__, set),
    ("frozenset", frozenset, frozenset.__iter__, frozenset),
    ("dict", dict, lambda value: (part for item in dict.items(value) for part in item), lambda parts: dict(zip(parts[::2], parts[1::2]))),
    ("complex", complex, lambda value: (value.real, value.imag), lambda parts: complex(*parts)),
    ("range", range, lambda value: (value.start, value.stop, value.step), lambda parts: range(*parts)),
    ("deque", collections.deque, collections.deque.__iter__, collections.deque),
    ("bytes", bytes, lambda value: (bytes.hex(value),), lambda parts: bytes.fromhex(*parts)),
    ("bytearray", bytearray, lambda value: (bytearray.hex(value),), lambda parts: bytearray.fromhex(*parts)),
    ("decimal", decimal.Decimal, lambda value: (decimal.Decimal.__str__(value),), lambda parts: decimal.Decimal(*parts)),
    ("fraction", fractions.Fraction, lambda value: (value.numerator, value.denominator), lambda parts: fractions.Fraction(*parts)),
    ("datetime", datetime.datetime, lambda value: value.timetuple()[:6] + (value.microsecond,), lambda parts: datetime.datetime(*parts)),
    ("date", datetime.date, lambda value: value.timetuple()[:3], lambda parts: datetime.date(*parts)),
    ("timedelta", datetime.timedelta, lambda value: (value.days, value.seconds, value.microseconds), lambda parts: datetime.timedelta(*parts)),
)
BUILTIN_TYPES = {each.__name__: each for each in (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, object, type(None))}

class Wire:
    # refer(value) gives the [tag, number] of what stays here; referred(tag, number) what the other side means by one.
    def __init__(self, descriptor, refer, referred):
        self.descriptor, self.refer, self.referred, self.is_broken = descriptor, refer, referred, False
        self.composers = {tag: compose for tag, _, _, compose in COMPOSED}
        self.parts_of = {kind: (tag, parts) for tag, kind, parts, _ in COMPOSED}

    def send(self, message):
        data = json.dumps(message, allow_nan=False).encode()
        if len(data) > MAX_BYTES:
            raise ValueError("a value of more than %d MiB" % (MAX_BYTES >> 20))
        view = memoryview(HEADER.pack(len(data)) + data)
        try:
            while len(view) > 0:
                view = view[os.write(self.descriptor, view):]
        except OSError:
            self.fail()

    def receive(self):
        size, = HEADER.unpack(self.read(HEADER.size))
        if size > MAX_BYTES:
            self.fail()
        try:
            return json.loads(bytes(self.read(size)))
        except (ValueError, RecursionError):
            self.fail()

    def read(self, size):
        data = bytearray(size)
        view = memoryview(data)
        while len(view) > 0 and not self.is_broken:
            try:
                count = os.readv(self.descriptor, [view])
            except OSError:
                count = 0
            if count == 0:
                self.fail()
            view = view[count:]
        return data

    def fail(self):
        self.is_broken = True
        raise Broken()

    def encode(self, value, depth=0):
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return value if -SAFE < value < SAFE else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if depth > MAX_DEPTH:
            raise ValueError("a value nested more than %d deep" % MAX_DEPTH)
        if kind is list:
            return [self.encode(item, depth + 1) for item in value]
        if kind is type and BUILTIN_TYPES.get(value.__name__) is value:
            return {"type": value.__name__}
        tag, parts = self.parts_of.get(kind, (None, None))
        if tag is not None:
            return {tag: [self.encode(part, depth + 1) for part in parts(value)]}
        if isinstance(value, (int, float, str, list)):
            return self.encode(plain(value), depth)
        for tag, base, parts, _ in COMPOSED:
            if isinstance(value, base):
                return {tag: [self.encode(part, depth + 1) for part in parts(value)]}
        if callable(getattr(kind, "tolist", None)):
            return self.encode(value.tolist(), depth)
        tag, number = self.refer(value)
        return {tag: number}

    def decode(self, data, depth=0):
        kind = type(data)
        if data is None or kind in (bool, str, int, float):
            return data
        if depth > MAX_DEPTH + 2:
            self.fail()
        if kind is list:
            return [self.decode(item, depth + 1) for item in data]
        try:
            (tag, body), = data.items()
            if tag == "int":
                return int(body, 16)
            if tag == "float":
                return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[body]
            if tag == "type":
                return BUILTIN_TYPES[body]
            if tag in self.composers:
                return self.composers[tag]([self.decode(part, depth + 1) for part in body])
            return self.referred(tag, body)
        except Exception:
            self.fail()

# The plain value in an object of a subclass.
def plain(value):
    for base, act in ((int, int.__index__), (float, float.__pos__), (str, str.__str__), (list, list.copy)):
        if isinstance(value, base):
            return act(value)
`;
