import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openVerdictCache, verdictKey } from "./verdict-cache.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-verdicts-"));
afterAll(() => rmSync(root, { recursive: true }));

test("verdicts outlive the cache in its file", async () => {
  const path = join(root, "kept.jsonl");
  const first = await openVerdictCache(path);
  await Promise.all([first.set("a", 1), first.set("b", 0.5)]);
  const second = await openVerdictCache(path);
  expect([second.get("a"), second.get("b"), second.get("c")]).toEqual([1, 0.5, undefined]);
});

test("a line that a crash cut off is skipped, and the next one is whole", async () => {
  for (const cut of ['{"k', '{"key":"b","ver']) {
    const path = join(root, "cut.jsonl");
    writeFileSync(path, `{"key":"a","verdict":1}\n${cut}`);
    const cache = await openVerdictCache(path);
    expect([cache.get("a"), cache.get("b")]).toEqual([1, undefined]);
    await cache.set("b", 0);
    expect((await openVerdictCache(path)).get("b")).toBe(0);
  }
});

test("a file of something else is refused and left as it is", async () => {
  const path = join(root, "notes.txt");
  writeFileSync(path, "dear diary\nmore\n");
  await expect(openVerdictCache(path)).rejects.toThrow('has no verdict in line 1: got "dear diary"');
  expect(readFileSync(path, "utf8")).toBe("dear diary\nmore\n");
});

test("any difference in the question gives another key", () => {
  const question = { model: "a", messages: [{ role: "user", content: "b" }] };
  expect(verdictKey(question)).toBe(verdictKey(structuredClone(question)));
  expect(verdictKey(question)).not.toBe(verdictKey({ ...question, model: "b" }));
});
