import { inspect } from "node:util";
import { expect, test } from "vitest";
import { z } from "zod";
import { parseOptions } from "./parse-options.ts";
import { expectSecrets, redact, revealAll } from "./redact.ts";
import { redactText } from "./redact-text.ts";
import { address, secret, secretFields, secretRecord, splitAddress } from "./secret.ts";

const schema = z.strictObject({
  apiKey: secret().optional(),
  headers: secretRecord().optional(),
  body: secretFields().prefault({}),
  url: address().optional(),
});

test("a secret is used and not shown, however it is printed", () => {
  const { apiKey } = schema.parse({ apiKey: "sk-very-private" });
  expect(apiKey!.reveal()).toBe("sk-very-private");
  expect(JSON.stringify({ apiKey })).toBe('{"apiKey":"[secret]"}');
  expect(`${apiKey}`).toBe("[secret]");
  expect(inspect({ apiKey }, { depth: 9, showHidden: true })).not.toContain("private");
  expect(Object.keys(apiKey!)).toEqual([]);
});

test("headers, fields and addresses show their names and places alone", () => {
  const given = {
    headers: { authorization: "Bearer abc-123-def", "x-team": { env: "NO_SUCH_VARIABLE" } },
    body: { user: "someone", seed: 4 },
    url: "https://me:p%40ss-w0rd@host:80/v1?key=abc&b=2#part",
  };
  const parsed = schema.parse(given);
  expect(redact(parsed)).toEqual({
    headers: { authorization: "[secret]", "x-team": { env: "NO_SUCH_VARIABLE" } },
    body: { user: "[secret]", seed: "[secret]" },
    url: "https://[secret]@host:80/v1?key=[secret]&b=[secret]#[secret]",
  });
  expect(revealAll({ list: [parsed.body] })).toEqual({ list: [{ user: "someone", seed: 4 }] });
  expect(schema.parse(parsed)).toEqual(parsed);
  expect(splitAddress(parsed.url!.reveal())).toEqual({
    url: "https://host:80/v1?key=abc&b=2#part",
    headers: { authorization: `Basic ${Buffer.from("me:p@ss-w0rd").toString("base64")}` },
  });
});

test("fragments of addresses are secrets, in configs and in texts that repeat them; a lone % is no reason to fail", () => {
  const { url } = schema.parse({ url: "https://me:100%@host/v1#access_token=frag-ment-1&id=2" });
  expect(redact({ url })).toEqual({ url: "https://[secret]@host/v1#[secret]" });
  expect(redactText("refused: frag-ment-1")).toBe("refused: [secret]");
  expect(redactText("see https://other/#id_token=abc and https://other/#top")).toBe(
    "see https://other/#id_token=[secret] and https://other/#top",
  );
  expect(splitAddress(url!.reveal()).headers.authorization).toBe(`Basic ${Buffer.from("me:100%").toString("base64")}`);
});

test("a variable that is not set is named before a run starts", () => {
  const config = { rewards: { default: schema.parse({ apiKey: { env: "NO_SUCH_VARIABLE" } }) } };
  expect(() => expectSecrets(config)).toThrow(
    "rewards.default.apiKey is read from the environment variable NO_SUCH_VARIABLE, which is not set.",
  );
  expect(() => expectSecrets({ a: [schema.parse({ apiKey: { env: "PATH" } })] })).not.toThrow();
});

test("an error about a secret, or about an object that may hold one, does not repeat it", () => {
  const wrong = (value: unknown) => () => parseOptions(schema, value, "judge");
  expect(wrong({ apiKey: 12345678 })).toThrow("judge.apiKey is not valid: got [secret].");
  expect(wrong({ apiKey: { env: "not a name 12345678" } })).toThrow("judge.apiKey is not valid: got [secret].");
  const list = z.strictObject({ servers: z.array(z.union([z.strictObject({ a: z.string() }), z.number()])) });
  expect(() => parseOptions(list, { servers: [{ type: "x", keys: ["private"], b: "private" }] }, "env")).toThrow(
    'got {"type":"x","keys":["..."],"b":"..."}',
  );
});

test("options that no schema knows are replaced by name, by form, and by what is known to be secret", () => {
  schema.parse({ apiKey: "known-secret-value" });
  const own = {
    type: "custom",
    myApiKey: "a",
    db: { PASSWORD: "b", pool: 3, note: "it is known-secret-value" },
    args: ["--token", "c", "--verbose", "d"],
    link: "postgres://me:pw@host/db?access_token=e&page=2",
    maxTokens: 5,
    step: () => {},
  };
  expect(redact(own)).toEqual({
    ...own,
    myApiKey: "[secret]",
    db: { PASSWORD: "[secret]", pool: 3, note: "it is [secret]" },
    args: ["--token", "[secret]", "--verbose", "d"],
    link: "postgres://[secret]@host/db?access_token=[secret]&page=2",
  });
});

test("texts are searched in linear time, whatever they hold", () => {
  const started = performance.now();
  for (const text of ["://", "?", "&a", "?a=", "key", "@", "/", "/\\", ":/", ";", ";a="])
    redactText(text.repeat(100_000));
  expect(performance.now() - started).toBeLessThan(5000);
});

test("what was hidden by its name is hidden in later texts, and so are the keys of addresses", () => {
  redact({ type: "custom", options: { apiKey: "own-env-key-1", secret_access: "own-env-key-2" } });
  expect(redactText("no answer with own-env-key-1, own-env-key-2 from http://host/x?key=abc&page=2")).toBe(
    "no answer with [secret], [secret] from http://host/x?key=[secret]&page=2",
  );
});

test("addresses that only a URL parser takes for ones hide as much as others", () => {
  const shown = (url: string) => JSON.stringify(schema.parse({ url }).url);
  for (const start of [
    "http://u:",
    "http:/u:",
    "http:u:",
    "http:\\\\u:",
    "http:///u:",
    "http://a@b:",
    " ht\ntp://u:",
  ]) {
    const text = `${start}pa55-w0rd-x@host/v1`;
    expect(shown(text)).not.toContain("w0rd");
    expect(splitAddress(text).url).not.toContain("w0rd");
    expect(new URL(splitAddress(text).url).href).toBe("http://host/v1");
  }
  expect(shown("https://host/v1?stream&k3y-0123456789")).toBe('"https://host/v1?stream&[secret]"');
});

test("values in the path of an address are secrets, and so is what a parser may take for credentials there", () => {
  const shown = (url: string) => `${schema.parse({ url }).url}`;
  expect(shown("http://host/;token=abc")).toBe("http://host/;token=[secret]");
  expect(shown("http://host/a;v=1.2/p;jsessionid=s3ssi0n-0123?page=2")).toBe(
    "http://host/a;v=[secret]/p;jsessionid=[secret]?page=[secret]",
  );
  expect(redactText("refused: s3ssi0n-0123")).toBe("refused: [secret]");
  expect(shown("http://host/\\u:pw@x/v1")).toBe("http://host/\\[secret]@x/v1");
  expect(redactText("moved to /\\u:pw@x, //u:pw@x, \\\\u:pw@x and http:/\\u:pw@x/p;jsessionid=1;b=2")).toBe(
    "moved to /\\[secret]@x, //[secret]@x, \\\\[secret]@x and http:/\\[secret]@x/p;jsessionid=[secret];b=2",
  );
});

test("a text inside of a field is not repeated either", () => {
  schema.parse({ body: { user: { tags: ["nested-0123456789"] } } });
  expect(redactText("no such user: nested-0123456789")).toBe("no such user: [secret]");
});
