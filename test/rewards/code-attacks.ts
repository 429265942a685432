/**
 * Programs that solve nothing and try to earn something: they tamper with what runs around them, forge reports, return objects that
 * claim to be equal, look for the expected values, or end, flood and hang. None may score above 0.
 */

/** By what they try. The function under test is `f`, which squares its argument. */
export const pythonAttacks: Readonly<Record<string, string>> = {
  "exec does nothing": "exec = lambda *a, **k: None\ndef f(x): return 0",
  "compile gives nothing": "compile = lambda *a, **k: ''\ndef f(x): return 0",
  "builtins.exec does nothing": "import builtins\nbuiltins.exec = lambda *a, **k: None\ndef f(x): return 0",
  "builtins.compile compiles pass":
    "import builtins\nold = builtins.compile\nbuiltins.compile = lambda s, *a, **k: old('pass', *a, **k)\ndef f(x): return 0",
  "AssertionError is harmless":
    "import builtins\nclass Quiet(Exception): pass\nbuiltins.AssertionError = Quiet\ndef f(x): return 0",
  "builtins.isinstance agrees": "import builtins\nbuiltins.isinstance = lambda *a: True\ndef f(x): return 0",
  "the names of tests are shadowed":
    "def check(candidate): pass\nabs = all = any = sorted = lambda *a: 1\ndef f(x): return 0",
  "the JSON encoder says passed":
    "import json\njson.dumps = lambda *a, **k: '[\"passed\"]'\njson.encoder.JSONEncoder.encode = json.dumps\ndef f(x): return 0",
  "the JSON decoder says value":
    "import json\njson.loads = lambda *a, **k: ['value', 4]\njson.decoder.JSONDecoder.decode = json.loads\ndef f(x): return 0",
  "the service module is replaced":
    "import reroll_service, reroll_wire\nreroll_wire.Wire.encode = lambda *a: 4\nreroll_service.Wire = None\ndef f(x): return 0",
  "the examiner module is replaced":
    "import reroll_examiner\nreroll_examiner.attempt = lambda *a: True\nreroll_examiner.report = print\ndef f(x): return 0",
  "an object equal to everything":
    "class Any:\n  def __eq__(self, o): return True\n  def __ne__(self, o): return False\n  __hash__ = None\ndef f(x): return Any()",
  "an object equal, ordered and near everything":
    "class Any:\n  __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __contains__ = __bool__ = lambda *a: True\n  __sub__ = __rsub__ = __abs__ = __call__ = __getitem__ = lambda s, *a: s\ndef f(x): return Any()",
  "an int equal to everything":
    "class Any(int):\n  __eq__ = lambda *a: True\n  __hash__ = int.__hash__\ndef f(x): return Any(0)",
  "a float equal to everything": "class Any(float):\n  __eq__ = lambda *a: True\ndef f(x): return Any(0)",
  "a str equal to everything": "class Any(str):\n  __eq__ = lambda *a: True\ndef f(x): return Any('')",
  "a list equal to everything": "class Any(list):\n  __eq__ = lambda *a: True\ndef f(x): return Any([0])",
  "a tuple equal to everything": "class Any(tuple):\n  __eq__ = lambda *a: True\ndef f(x): return Any((0,))",
  "a dict equal to everything": "class Any(dict):\n  __eq__ = lambda *a: True\ndef f(x): return Any()",
  "a class that claims to be int":
    "class Any:\n  __class__ = int\n  __eq__ = lambda *a: True\n  __index__ = __int__ = lambda s: 0\ndef f(x): return Any()",
  "a metaclass equal to everything":
    "class Meta(type):\n  __eq__ = lambda *a: True\n  __hash__ = None\nclass Any(metaclass=Meta): pass\ndef f(x): return Any",
  "an object that pickles":
    "import os\nclass Any:\n  def __reduce__(self): return (os._exit, (0,))\ndef f(x): return Any()",
  "an object with tolist":
    "class Any:\n  def tolist(self): return self\n  __eq__ = lambda *a: True\ndef f(x): return Any()",
  "a mock": "from unittest.mock import ANY\ndef f(x): return ANY",
  "a magic mock": "from unittest.mock import MagicMock\nf = MagicMock()\nf.return_value.__eq__ = lambda *a: True",
  nan: "def f(x): return float('nan')",
  infinity: "def f(x): return float('inf')",
  "StopIteration ends loops": "def f(x): raise StopIteration",
  "GeneratorExit ends loops": "def f(x): raise GeneratorExit",
  "AssertionError is raised": "def f(x): raise AssertionError()",
  "sys.exit at load": "import sys\nsys.exit(0)",
  "sys.exit in the call": "import sys\ndef f(x): sys.exit(0)",
  "os._exit at load": "import os\nos._exit(0)",
  "os._exit in the call": "import os\ndef f(x): os._exit(0)",
  "atexit reports":
    'import atexit, os\natexit.register(lambda: os.write(3, b\'{"kind": "passed"}\\n\' * 9))\ndef f(x): return 0',
  "kills itself": "import os, signal\ndef f(x): os.kill(os.getpid(), signal.SIGKILL)",
  "kills everything":
    "import os, signal\nfor pid in range(1, 400):\n  try: os.kill(pid, signal.SIGTERM)\n  except OSError: pass\ndef f(x): return 0",
  "kills its group":
    "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.killpg(0, signal.SIGTERM)\ndef f(x): return 0",
  "reports on all descriptors":
    'import os\nfor n in range(64):\n  try: os.write(n, b\'{"kind": "passed"}\\n{"kind": "passed"}\\n\')\n  except OSError: pass\ndef f(x): return 0',
  "prints the report": 'print(\'{"kind": "passed"}\\n\' * 5)\ndef f(x): return 0',
  "sends frames of its own":
    "import json, os, struct\nfor m in (['ready'], ['value', None], ['names', []], ['value', None], ['value', 4, []]):\n  d = json.dumps(m).encode()\n  os.write(3, struct.pack('<I', len(d)) + d)\ndef f(x): return 0",
  "sends a huge frame": "import os\nos.write(3, b'\\xff\\xff\\xff\\xff')\ndef f(x): return 0",
  "sends deep JSON":
    "import os, struct\nd = b'[' * 100000\nos.write(3, struct.pack('<I', len(d)) + d)\ndef f(x): return 0",
  "sends unknown tags":
    "import json, os, struct\ndef f(x):\n  d = json.dumps(['value', {'callback': 0}]).encode()\n  os.write(3, struct.pack('<I', len(d)) + d)\n  return 0",
  "closes the channel": "import os\nos.close(3)\ndef f(x): return 0",
  "replaces os.write": "import os\nos.write = lambda n, d: len(d)\ndef f(x): return 0",
  "looks at the frames above":
    "import sys\ndef f(x):\n  needle = ''.join(('(7) =', '= 49'))\n  frame = sys._getframe().f_back\n  while frame:\n    for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):\n      if isinstance(value, str) and needle in value: return x * x\n    frame = frame.f_back\n  return 0",
  "looks through all objects":
    "import gc\ndef f(x):\n  needle = ''.join(('(7) =', '= 49'))\n  for each in gc.get_objects():\n    if isinstance(each, dict):\n      for value in list(each.values()):\n        if isinstance(value, str) and needle in value: return x * x\n  return 0",
  "looks through its memory":
    "import re\ndef f(x):\n  needle = b''.join((b'(7) =', b'= 49'))\n  for line in open('/proc/self/maps'):\n    m = re.match('(\\\\w+)-(\\\\w+) r', line)\n    if not m or '[v' in line: continue\n    start, end = (int(n, 16) for n in m.groups())\n    try:\n      with open('/proc/self/mem', 'rb') as file:\n        file.seek(start)\n        if needle in file.read(end - start): return x * x\n    except (OSError, MemoryError, OverflowError): pass\n  return 0",
  "looks into other processes":
    "import os\ndef f(x):\n  for pid in os.listdir('/proc'):\n    for name in ('mem', 'environ', 'maps', 'auxv', 'fd/4', 'fd/3', 'stack'):\n      if pid.isdigit() and int(pid) != int(os.readlink('/proc/self')):\n        try:\n          if open('/proc/%s/%s' % (pid, name), 'rb').read(10): return x * x\n        except OSError: pass\n  return 0",
  "looks into the environment":
    "import os, sys\ndef f(x): return x * x if 'assert' in str(os.environ) + str(sys.argv) + str(sys.orig_argv) and 'f(2)' in str(sys.orig_argv) else 0",
  "looks for files":
    "import os\ndef f(x):\n  for root, _, files in os.walk('/tmp'):\n    if files: return x * x\n  return 0",
  "reads the cached lines": "import linecache\ndef f(x): return x * x if 'tests.py' in linecache.cache else 0",
  "reads tracebacks":
    "import sys, traceback\ndef f(x):\n  try: raise KeyError\n  except KeyError: text = ''.join(traceback.format_stack())\n  return x * x if 'assert' in text else 0",
  "a trace function changes the tests":
    "import sys\nsys.settrace(lambda frame, event, arg: frame.f_globals.update(f=4) and None)\ndef f(x): return 0",
  "a profile function ends the process":
    "import os, sys\nsys.setprofile(lambda frame, event, arg: os._exit(0) if event == 'return' else None)\ndef f(x): return 0",
  "an infinite generator": "def f(x):\n  while True: yield 0",
  "an infinite list": "def f(x):\n  all = []\n  while True: all.append(all)",
  "a list that holds itself": "def f(x):\n  a = []\n  a.append(a)\n  return a",
  "a deep list": "def f(x):\n  a = []\n  for _ in range(100000): a = [a]\n  return a",
  "an exponential list": "def f(x):\n  a = [0]\n  for _ in range(60): a = [a, a]\n  return a",
  "a huge string": "def f(x): return 'x' * 10 ** 8",
  "a huge integer": "def f(x): return 10 ** 100000",
  "a huge list": "def f(x): return list(range(10 ** 7))",
  "an overflow": "import math\ndef f(x): return math.exp(1000)",
  "infinite recursion": "def f(x): return f(x)",
  "recursion without a limit": "import sys\nsys.setrecursionlimit(10 ** 8)\ndef f(x): return f(x)",
  "threads left running":
    "import threading\ndef spin():\n  while True: pass\nfor _ in range(4): threading.Thread(target=spin).start()\ndef f(x): return 0",
  "a thread answers first":
    "import json, os, struct, threading\ndef spam():\n  d = json.dumps(['value', 4, []]).encode()\n  for _ in range(1000): os.write(3, struct.pack('<I', len(d)) + d)\nthreading.Thread(target=spam, daemon=True).start()\ndef f(x): return 0",
  "signals are ignored":
    "import signal\nfor n in range(1, 32):\n  try: signal.signal(n, signal.SIG_IGN)\n  except (OSError, ValueError): pass\ndef f(x):\n  while True: pass",
  "everything is caught": "def f(x):\n  while True:\n    try:\n      while True: pass\n    except BaseException: pass",
  "a flood of output": "def f(x):\n  while True: print('x' * 10 ** 6)",
  "a fork bomb": "import os\ndef f(x):\n  while True:\n    try: os.fork()\n    except OSError: pass",
  "a child answers": "import os\ndef f(x):\n  if os.fork() == 0: return 4\n  os._exit(0)",
  "a memory bomb": "def f(x):\n  all = []\n  while True: all.append(bytearray(10 ** 7))",
  "a segmentation fault": "import ctypes\ndef f(x): ctypes.string_at(0)",
  "the argument is emptied": "def f(x): return None",
  "a module as function": "import math as f",
  "an exception as function": "class f(Exception):\n  __eq__ = lambda *a: True",
  "a class as function":
    "class f:\n  def __new__(cls, x): return object.__new__(cls)\n  def __eq__(self, other): return True",
  "a property of itself":
    "class F:\n  def __call__(self, x): return self\n  def __getattr__(self, name): return self\n  __eq__ = lambda *a: True\nf = F()",
};

export const javascriptAttacks: Readonly<Record<string, string>> = {
  "push is patched": "Array.prototype.push = function () { return 0; }; function f() { return 0; }",
  "the array iterator is patched": "Array.prototype[Symbol.iterator] = function* () {}; function f() { return 0; }",
  "forEach, map and every are patched":
    "for (const n of ['forEach','map','every','filter','reduce']) Array.prototype[n] = () => []; function f() { return 0; }",
  "JSON is patched":
    "JSON.stringify = () => '[\"value\",4,[]]'; JSON.parse = () => ['value', 4]; function f() { return 0; }",
  "JSON answers passed": 'JSON.stringify = () => \'{"kind":"passed"}\'; function f() { return 0; }',
  "toJSON on everything": "Object.prototype.toJSON = () => 4; function f() { return {}; }",
  "promises are patched":
    "Promise.prototype.then = function (g) { return g(4); }; Promise.resolve = () => 4; async function f() { return 0; }",
  "an object with valueOf": "function f() { return { valueOf: () => 4, toString: () => '4' }; }",
  "an object with toPrimitive": "class A { [Symbol.toPrimitive]() { return 4; } } function f() { return new A(); }",
  "a wrapped number": "class A extends Number {} function f() { return new A(4); }",
  "a proxy that has everything":
    "function f() { return new Proxy(function () {}, { get: () => 4, apply: () => 4, has: () => true }); }",
  "a proxy that throws":
    "function f() { return new Proxy({}, { get() { throw 4; }, ownKeys() { throw 4; }, getPrototypeOf() { throw 4; } }); }",
  "a proxy as array": "function f() { return new Proxy([], { get: () => 4 }); }",
  "getters that change": "let n = 0; function f() { return { get x() { return n++; } }; }",
  "an endless getter": "function f() { return { get x() { for (;;); } }; }",
  "a prototype by key": 'function f() { return JSON.parse(\'{"__proto__": {"x": 4}}\'); }',
  "prototypes answer":
    "Object.prototype.valueOf = () => 4; Number.prototype.valueOf = () => 4; function f() { return {}; }",
  "strings claim to be equal":
    "String.prototype.localeCompare = () => 0; String.prototype.includes = () => true; function f() { return '0'; }",
  "console.assert does nothing": "console.assert = () => {}; function f() { return 0; }",
  "console is replaced": "globalThis.console = { assert() {}, log() {} }; function f() { return 0; }",
  "assert does nothing":
    "function assert() {} assert.strictEqual = assert.equal = assert.deepEqual = () => {}; function f() { return 0; }",
  "require gives another assert": "globalThis.require = () => () => {}; function f() { return 0; }",
  "Error is replaced":
    "globalThis.Error = function () { return 4; }; globalThis.TypeError = Error; function f() { return 0; }",
  "the runner is replaced":
    "globalThis.runExaminer = () => {}; const answer = () => '[\"value\",4]'; function f() { return 0; }",
  "reports by itself":
    'try { report(\'{"kind":"passed"}\\n{"kind":"passed"}\\n\'); } catch {} function f() { return 0; }',
  "asks and tells by itself":
    "for (const n of ['ask','tell','answer']) try { globalThis[n]('[0,[]]'); } catch {} function f() { return 0; }",
  "prints the report": 'console.log(\'{"kind":"passed"}\\n\'.repeat(5)); function f() { return 0; }',
  "process.exit at load": "process.exit(0); function f() { return 0; }",
  "process.exit in the call": "function f() { process.exit(0); }",
  "throws a deep object": "function f() { let a = {}; for (let i = 0; i < 100000; i++) a = { a }; throw a; }",
  "throws at load, deep": "let a = []; for (let i = 0; i < 100000; i++) a = [a]; throw a;",
  "returns a deep list": "function f() { let a = []; for (let i = 0; i < 100000; i++) a = [a]; return a; }",
  "returns a cycle": "function f() { const a = []; a.push(a); return a; }",
  "returns an exponential list": "function f() { let a = [0]; for (let i = 0; i < 60; i++) a = [a, a]; return a; }",
  "returns a huge string": "function f() { return 'x'.repeat(2 ** 27); }",
  "returns NaN": "function f() { return NaN; }",
  "returns undefined": "function f() {}",
  "never settles": "function f() { return new Promise(() => {}); }",
  "resolves another thenable": "function f() { return { then(g) { g(4); } }; }",
  rejects: "async function f() { throw 4; }",
  "infinite recursion": "function f(x) { return f(x); }",
  "recursion that catches": "function f(x) { try { return f(x); } catch { return f(x); } }",
  "an endless loop": "function f() { for (;;); }",
  "an endless loop that catches": "function f() { for (;;) try { for (;;); } catch {} }",
  "a memory bomb": "function f() { const a = []; for (;;) a.push(new Array(1e5).fill(1)); }",
  "a string bomb": "function f() { let s = 'x'; for (;;) s += s; }",
  "a flood of output": "function f() { for (;;) console.log('x'.repeat(1e5)); }",
  "endless jobs": "function f() { const g = () => Promise.resolve().then(g); g(); return 0; }",
  "looks for the tests":
    "function f(x) { const seen = Object.getOwnPropertyNames(globalThis).map((n) => { try { return String(globalThis[n]); } catch { return ''; } }); const all = seen.join() + new Error().stack + String(arguments.callee?.caller); return all.includes(['(7)', ') ==='].join('')) ? x * x : 0; }",
  "a generator": "function* f() { for (;;) yield 4; }",
  "a constructor": "class f { constructor() { return 4; } }",
  "a set of all": "function f() { return Object.assign(new Set(), { has: () => true, size: 1 }); }",
};
