import { expect, test } from "vitest";
import { withMethods } from "./with-methods.ts";

interface Host {
  ask(): string;
  tell(word: string): string;
}

/** As `Remote.ask` is: it knows no method by name. */
const host = new Proxy({} as Host, { get: (_, name) => (name === "then" ? undefined : () => `host ${String(name)}`) });

test("a method that is replaced is the new one, and all others are the host's", () => {
  const changed = withMethods(host, { tell: (word) => `${word}, ${host.ask()}` });
  expect([changed.ask(), changed.tell("changed")]).toEqual(["host ask", "changed, host ask"]);
});

test("a host that was changed is no promise to those who await it", async () => {
  const changed = withMethods(host, {});
  expect(await changed).toBe(changed);
});
