/** Small tasks of every kind that the code reward knows, each with replies that are right and replies that are not. */
import type { JsonValue } from "../../src/flow/prompt.ts";

export interface CodeTask {
  readonly name: string;
  readonly truth: JsonValue;
  readonly right: readonly string[];
  /** Replies that score 0, and what the explanation says. */
  readonly wrong: readonly (readonly [reply: string, explanation: string | RegExp])[];
}

const fenced = (code: string, language = "python") => `Here it is:\n\`\`\`${language}\n${code}\n\`\`\`\nDone.`;

const add = {
  function: "add",
  cases: [
    { arguments: [2, 3], expected: 5 },
    { arguments: [-1, 1.5], expected: 0.5 },
  ],
};

const objects = `
OFFSET = 10
class Empty(ValueError): pass
class Stack:
    def __init__(self, items): self.items = items
    def push(self, item): self.items.append(item)
    def pop(self):
        if not self.items: raise Empty('empty', 0)
        return self.items.pop()
    def __len__(self): return len(self.items)
    def __getitem__(self, index): return self.items[index]
def sort_rows(rows):
    for each in rows: each.sort()
def apply(function, values):
    if function is Stack: return None
    return {value: function(value) for value in values}
`;

export const pythonTasks: readonly CodeTask[] = [
  {
    name: "a HumanEval row",
    truth: {
      prompt: 'from typing import List\n\ndef total(numbers: List[int]) -> int:\n    """ Adds them up. """\n',
      entry_point: "total",
      test: "def check(candidate):\n    assert candidate([]) == 0\n    assert candidate([1, 2, 3]) == 6\n",
    },
    right: [
      "    return sum(numbers)\n",
      fenced("def total(numbers: List[int]) -> int:\n    return sum(numbers)"),
      fenced("def total(numbers):\n    return sum(numbers)\n\nif __name__ == '__main__':\n    print(total(input()))"),
    ],
    wrong: [
      ["    return 0\n", "Test 1 of 1 fails: check(total): assert candidate([1, 2, 3]) == 6: AssertionError"],
      ["    return sum(numbers) + 1\n", /assert candidate\(\[\]\) == 0: AssertionError/],
      ["    return None\n", /AssertionError/],
      ["    return unknown\n", /NameError: name 'unknown' is not defined/],
      ["    retrun 1\n", /SyntaxError/],
      ["    import os\n    os._exit(0)\n", /ended before this test did/],
      ["    raise SystemExit(0)\n", /SystemExit: 0/],
      ['    pass\nimport os\nos.write(3, b\'{"kind": "passed"}\\n\')\nos._exit(0)', /ended before this test did/],
    ],
  },
  {
    name: "an MBPP row",
    truth: {
      test_list: ["assert double(2) == 4", "assert double(LIMIT) == 200", "assert double('a') == 'aa'"],
      test_setup_code: "LIMIT = 100",
      challenge_test_list: [],
    },
    right: [fenced("def double(x):\n    return x + x"), "double = lambda x: 2 * x"],
    wrong: [
      [
        "def double(x): return 2 * x if x != 100 else 0",
        "Test 2 of 3 fails: assert double(LIMIT) == 200: AssertionError",
      ],
      ["def double(x): return x - x", /Test 1 of 3/],
      ["def twice(x): return x + x", /NameError: name 'double' is not defined/],
      ["def double(x):\n    while x != 'a': pass\n    return x", /ran longer than \d+ ms/],
      ["def double(x): return bytearray(10 ** 10)", /MemoryError/],
      ["def double(x): return double(x)", /RecursionError/],
      ["", "The reply holds no python code."],
      [fenced("const double = (x) => x + x;", "js"), "The reply holds no python code."],
    ],
  },
  {
    name: "objects, callbacks, errors and arguments changed in place",
    truth: {
      test_setup_code: "stack = Stack([1])\nstack.push(2)\nstack.name = 'mine'\nrows = [[2, 1], [3]]\nsort_rows(rows)",
      test_list: [
        "assert stack.items == [1, 2] and len(stack) == 2 and stack[0] == 1 and list(stack) == [1, 2] and stack.name == 'mine'",
        "assert rows == [[1, 2], [3]] and isinstance(stack, Stack)",
        "assert apply(lambda x: x + OFFSET, (1, 2)) == {1: 11, 2: 12}",
        "try:\n    Stack([]).pop()\n    assert False\nexcept Empty as error:\n    assert isinstance(error, ValueError) and error.args == ('empty', 0)",
        "assert apply(Stack, ([1], [2])) == None",
      ],
    },
    right: [objects],
    wrong: [
      [objects.replace("each.sort()", "pass"), /^Test 2 of 5/],
      [objects.replace("('empty', 0)", "()").replace("'empty', 0", "'full'"), /^Test 4 of 5/],
      [
        `${objects}\nclass Stack(Stack):\n    def __eq__(self, other): return True\n    def push(self, x): pass`,
        /^Test 1 of 5/,
      ],
    ],
  },
  {
    name: "standard input and output, as verl has it",
    truth: JSON.stringify({ inputs: ["1 2\n", "10 -3\n"], outputs: ["3\n", "7"] }),
    right: [
      fenced("a, b = map(int, input().split())\nprint(a + b)"),
      "print(sum(map(int, open(0).read().split())), '\\n')",
    ],
    wrong: [
      ["print(3)", 'Test 2 of 2 fails: input "10 -3\\n": printed "3\\n", expected "7"'],
      ["a, b = input().split()\nprint(a + b)", /printed "12\\n", expected "3\\n"/],
      ["print(int(input()))", /ValueError: invalid literal/],
      ["while True: print('x' * 1000)", /printed too much/],
      ["while True: pass", /ran longer than 1000 ms/],
    ],
  },
  {
    name: "standard input and output, as ROLL has it",
    truth: {
      test_cases: JSON.stringify([
        { stdin: "4", expected_stdout: "2.0" },
        { stdin: "2", expected_stdout: "1.41421356" },
      ]),
    },
    right: ["print(float(input()) ** 0.5)", "import math\nprint('%.9f' % math.sqrt(int(input())))"],
    wrong: [["print(int(input()) // 2)", 'Test 2 of 2 fails: input "2": printed "1\\n", expected "1.41421356"']],
  },
  {
    name: "function calls",
    truth: add,
    right: [fenced("def add(a, b):\n    return a + b"), "class Solution:\n    def add(self, a, b): return a + b"],
    wrong: [
      ["def add(a, b): return a - b", "Test 1 of 2 fails: add(2, 3): returned -1, expected 5"],
      ["def add(a, b): return a + b + 1", /returned 6, expected 5/],
      ["def add(a, b): return {a}", /returned a set, which JSON cannot hold/],
      ["def add(a, b): return float('nan')", /ValueError/],
      ["def add(a): return a", /TypeError/],
      ["import json\njson.dumps = lambda *a, **k: '5'\ndef add(a, b): return 0", /the solution ended/],
    ],
  },
  {
    name: "function calls, as APPS has them",
    truth: {
      fn_name: "pair",
      inputs: [
        [1, "a"],
        [2, "b"],
      ],
      outputs: [[[1, "a"]], [[2, "b"]]],
    },
    right: ["def pair(a, b): return (a, b)", "def pair(a, b): return [a, b]"],
    wrong: [["def pair(a, b): return [b, a]", /returned \["a",1\], expected \[1,"a"\]/]],
  },
];

const boxes = `
class Box {
  constructor(item) { this.items = [item]; }
  add(item) { this.items.push(item); }
  *[Symbol.iterator]() { yield* this.items; }
}
const sortRows = (rows) => { for (const each of rows) each.sort(); };
const apply = (act, values) => new Map(values.map((value) => [value, act(value)]));
const fail = () => { throw new RangeError("too far"); };
`;

export const javascriptTasks: readonly CodeTask[] = [
  {
    name: "function calls",
    truth: { ...add, language: "javascript" },
    right: [
      fenced("const add = (a, b) => a + b;", "js"),
      fenced("async function add(a, b) { return a + b; }", "javascript"),
      "class Solution { add(a, b) { return a + b; } }",
    ],
    wrong: [
      ["const add = (a, b) => a - b;", "Test 1 of 2 fails: add(2, 3): returned -1, expected 5"],
      ["const add = () => undefined;", /returned null, expected 5/],
      ["const add = () => { throw new Error('no'); };", /Error: no/],
      ["const add = () => { for (;;); };", /ran longer than 3000 ms/],
      ["const plus = (a, b) => a + b;", /ReferenceError/],
      ["const add = (a, b) => a +", /SyntaxError/],
      ['const add = () => 5; report(\'{"kind":"value","value":5}\');', /ReferenceError/],
    ],
  },
  {
    name: "checks",
    truth: {
      language: "javascript",
      test_list: ["console.assert(twice(2) === 4)", "if (twice('a') !== 'aa') throw new Error('text')"],
    },
    right: ["const twice = (x) => x + x;"],
    wrong: [["const twice = (x) => 2 * x;", /^Test 2 of 2 fails: .*: Error: text$/]],
  },
  {
    name: "objects, callbacks, errors and arguments changed in place",
    truth: {
      language: "javascript",
      test_list: [
        "const box = new Box(1); box.add(2); assert.deepEqual(box.items, [1, 2]); assert(box instanceof Box && [...box].length === 2)",
        "const rows = [[2, 1], [3]]; sortRows(rows); assert.deepEqual(rows, [[1, 2], [3]])",
        "assert.deepEqual(apply((x) => x + 10, [1, 2]), new Map([[1, 11], [2, 12]]))",
        "assert.throws(() => fail(), RangeError); assert.throws(() => fail(), /too far/)",
      ],
    },
    right: [boxes],
    wrong: [
      [boxes.replace("each.sort()", "each"), /^Test 2 of 4/],
      [boxes.replace("RangeError", "TypeError"), /^Test 4 of 4/],
    ],
  },
  {
    name: "standard input and output",
    truth: { language: "javascript", inputs: ["3\n"], outputs: ["6"] },
    right: ["console.log(Number(require('fs').readFileSync(0)) * 2)"],
    wrong: [["console.log(3)", /printed "3\\n", expected "6"/]],
  },
];
