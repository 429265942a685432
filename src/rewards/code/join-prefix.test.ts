import { expect, test } from "vitest";
import { joinPrefix } from "./join-prefix.ts";

const tests = (prefix: string) => ({ kind: "checks", prefix, setup: "", checks: [], functionName: "f" }) as const;
const whole = "def f(x):\n    return x + 1";
const body = "    return x + 1";

test.each([
  ["def f(x):\n", whole, "def f(x):\n    pass\ndef f(x):\n    return x + 1\n"],
  ["import math\ndef f(x):\n    # adds one\n", whole, `import math\ndef f(x):\n    # adds one\n    pass\n${whole}\n`],
  ["def f(x):\n", body, `def f(x):\n${body}\n`],
  ['def f(x):\n  """Adds one."""\n', whole, `def f(x):\n  """Adds one."""\n${whole}\n`],
  ["", whole, `${whole}\n`],
])("%j and a reply %j are one program", (prefix, reply, program) => {
  expect(joinPrefix(tests(prefix), reply, "python")).toBe(program);
});
