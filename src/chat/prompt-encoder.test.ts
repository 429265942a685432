import { existsSync } from "node:fs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { PromptEncoder } from "./prompt-encoder.ts";
import { loadTokenizer } from "./tokenizer/load-tokenizer.ts";

const FOLDERS = [
  "fixtures/tokenizer",
  ...["gpt2", "qwen2_5", "qwen3", "mistral"].map((name) => `../shared/tokenizers/${name}`),
];

for (const folder of FOLDERS) {
  test.runIf(existsSync(folder))(`pieces give the same ids as the whole text: ${folder}`, async () => {
    const tokenizer = await loadTokenizer(folder);
    const encoder = new PromptEncoder(tokenizer);
    const special = [...tokenizer.specialIds].slice(0, 6).map((id) => tokenizer.tokenOf(id) ?? "");
    const words = [
      "Hello",
      " world",
      " don't",
      "\n",
      "\n\n",
      "  ",
      " a",
      "é",
      "日本",
      " 42",
      '{"x": [1,2]}',
      " it's",
      "😀",
      ".",
      "f(x)=y",
      "，好。",
      "3.14,15",
      "\u2019s",
      "\u0301",
    ];
    const piece = fc.constantFrom(...special, ...words);
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 60 }), fc.nat(30), async (pieces, repeats) => {
        // Long enough to be cut between words as well.
        const text = pieces.join("") + " and so on".repeat(repeats * 40) + pieces.join("");
        expect(await encoder.encode(text)).toEqual(tokenizer.encode(text));
      }),
      { numRuns: 5, seed: 1 },
    );
  });
}

test("a text beyond the limit is not encoded to its end", async () => {
  const encoder = new PromptEncoder(await loadTokenizer("fixtures/tokenizer"));
  const ids = await encoder.encode("and so on ".repeat(10_000), 1000);
  expect(ids.length).toBeGreaterThan(1000);
  expect(ids.length).toBeLessThan(20_000);
});

test("a long text that cannot be cut is counted in parts, and not encoded when it has far too many tokens", async () => {
  const encoder = new PromptEncoder(await loadTokenizer("fixtures/tokenizer"));
  const ids = await encoder.encode("\u4e2d".repeat(1_000_000), 1000);
  expect(ids.length).toBeGreaterThan(1000);
  expect(ids.length).toBeLessThan(30_000);
  const whole = "\u4e2d".repeat(20_000);
  expect((await encoder.encode(whole, 59_999)).length).toBe(60_000);
  expect((await encoder.encode(whole, 60_000)).length).toBe(60_000);
});

test("the event loop turns while a long text is encoded", async () => {
  const encoder = new PromptEncoder(await loadTokenizer("fixtures/tokenizer"));
  let numTurns = 0;
  const timer = setInterval(() => numTurns++, 1);
  await encoder.encode(Array.from({ length: 15_000 }, (_, index) => `and so ${index} on `).join(""));
  clearInterval(timer);
  expect(numTurns).toBeGreaterThan(10);
});
