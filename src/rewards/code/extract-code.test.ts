import fc from "fast-check";
import { expect, test } from "vitest";
import { extractCode } from "./extract-code.ts";

test("the last block of the language is the code", () => {
  const reply = "First:\n```python\na = 1\n```\nBetter:\n```py\na = 2\n```\nRun it:\n```bash\npython a.py\n```\n";
  expect(extractCode(reply, "python")).toBe("a = 2");
});

test("a block without a language counts when none names it", () => {
  expect(extractCode("```\na = 1\n```\n```js\nb\n```", "python")).toBe("a = 1");
  expect(extractCode("```\na = 1\n```\n```js\nb\n```", "javascript")).toBe("b");
});

test("without a block the whole reply is the code, with its indentation", () => {
  expect(extractCode("\n\n    return 1\n", "python")).toBe("    return 1");
});

test("blocks of other languages alone are no code", () => {
  expect(extractCode("```java\nint a;\n```", "python")).toBe(null);
  expect(extractCode("  \n ", "python")).toBe(null);
});

test("code inside the reasoning does not count", () => {
  expect(extractCode("<think>```python\na = 1\n```</think>\n```python\na = 2\n```", "python")).toBe("a = 2");
  expect(extractCode("<think>\n```python\na = 1\n```\n</think>\n", "python")).toBe(null);
});

test("a block that the end of the reply cut off counts", () => {
  expect(extractCode("```python\ndef f():\n    return", "python")).toBe("def f():\n    return");
});

test("a longer fence may hold a shorter one", () => {
  expect(extractCode("````python\ntext = '''\n```\n'''\n````", "python")).toBe("text = '''\n```\n'''");
});

test("any code without fences comes back from a block as it was", () => {
  const code = fc.string({ unit: "grapheme", minLength: 1 }).filter((text) => !/[`~\r]|<\/think>/.test(text));
  fc.assert(
    fc.property(code, (text) => {
      const expected = text.replace(/^(?:[ \t]*\n)+/, "").trimEnd();
      expect(extractCode(`Text.\n\`\`\`python\n${text}\n\`\`\``, "python")).toBe(expected === "" ? null : expected);
    }),
  );
});
