/** The overview of a folder names everything that is in it. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

test.each(["src/flow", "src/chat"])("the overview of %s names every file and folder", (folder) => {
  const text = readFileSync(`${folder}/README.md`, "utf8");
  const isMeant = (name: string) => !name.endsWith(".test.ts") && name !== "README.md";
  const missing = readdirSync(folder)
    .filter(isMeant)
    .filter((name) => !text.includes(name));
  expect(missing).toEqual([]);
});
