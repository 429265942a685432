/**
 * Secrets as a type: what an option declares with `secret()`, `secretRecord()` or `address()` can be used and not be shown.
 *
 * In: what a run file says, as a text or as `{ env: "NAME" }`. Out: a `Secret`, which turns into "[secret]" wherever it is printed,
 * logged or written, and gives its value only to `reveal()`. That is called where a request is made, and nowhere else.
 */
// Takes a lone % as it is, where decodeURIComponent throws.
import { unescape as decode } from "node:querystring";
import { inspect } from "node:util";
import { z } from "zod";
import { hideCredentials, isSecretName, remember, SECRET } from "./redact-text.ts";

/** A value that is used and never shown. */
export class Secret<Value = string> {
  readonly #read: () => Value;
  readonly #shown: unknown;
  /** Environment variables that the value is read from and that are not set. */
  readonly #missing: () => readonly string[];

  constructor(read: () => Value, shown: unknown, missing: () => readonly string[] = () => []) {
    this.#read = read;
    this.#shown = shown;
    this.#missing = missing;
  }

  /** The value itself. To be called where it is sent, and nowhere else. */
  reveal(): Value {
    return this.#read();
  }

  get missing(): readonly string[] {
    return this.#missing();
  }

  toJSON(): unknown {
    return this.#shown;
  }

  toString(): string {
    return typeof this.#shown === "string" ? this.#shown : JSON.stringify(this.#shown);
  }

  [inspect.custom](): string {
    return this.toString();
  }
}

/** The name of an environment variable that holds a secret. */
type FromEnv = { readonly env: string };

type SecretInput = string | FromEnv | Secret;

/** A key, token or password: a text, or the variable that holds it. */
export function secret() {
  return z
    .custom<SecretInput>(isSecretInput, 'Give a text, or { env: "NAME" } for an environment variable')
    .transform(toSecret)
    .meta({ secret: '"text" or { env: "NAME" }' });
}

/** Texts by name that are secrets as a whole, such as headers or the variables of a process. The names are shown. */
export function secretRecord() {
  return z
    .custom<Readonly<Record<string, SecretInput>> | Secret<Readonly<Record<string, string>>>>(
      (value) => value instanceof Secret || (isRecord(value) && Object.values(value).every(isSecretInput)),
      'Give texts by name; each may be { env: "NAME" } for an environment variable',
    )
    .transform((given) => (given instanceof Secret ? given : joined(mapValues(given, toEntry))))
    .meta({ secret: '{ name: "text" or { env: "NAME" } }' });
}

/** JSON values by name that nobody else needs to see, such as fields of a request. The names are shown. */
export function secretFields() {
  type Fields = Readonly<Record<string, z.core.util.JSONType>>;
  return z
    .custom<Fields | Secret<Fields>>(
      (value) => value instanceof Secret || z.record(z.string(), z.json()).safeParse(value).success,
      "Give JSON values by name",
    )
    .transform((given) => (given instanceof Secret ? given : joined(mapValues(given, toEntry))))
    .meta({ secret: "JSON values by name" });
}

/** The address of a server. User name, password, fragment, and the values of its query and in its path are secrets; the rest is shown. */
export function address() {
  return z
    .custom<string | Secret>(
      (value) => value instanceof Secret || (typeof value === "string" && URL.canParse(value)),
      "Give an address, such as http://localhost:8000",
    )
    .transform((given) => (given instanceof Secret ? given : addressOf(given)))
    .meta({ secret: "address" });
}

/** What an address asks of a request: `fetch` refuses credentials in an address, so they go into a header. */
export function splitAddress(text: string): {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
} {
  if (!URL.canParse(text)) return { url: text, headers: {} };
  const { username, password } = new URL(text);
  if (username === "" && password === "") return { url: text, headers: {} };
  const plain = `${decode(username)}:${decode(password)}`;
  const encoded = Buffer.from(plain).toString("base64");
  remember(encoded);
  return { url: text.trim().replace(CREDENTIALS, "$1"), headers: { authorization: `Basic ${encoded}` } };
}

function isSecretInput(value: unknown): value is SecretInput {
  return (typeof value === "string" && value !== "") || value instanceof Secret || isFromEnv(value);
}

function isFromEnv(value: unknown): value is FromEnv {
  return isRecord(value) && Object.keys(value).length === 1 && typeof value.env === "string" && /^\w+$/.test(value.env);
}

function toSecret(given: SecretInput): Secret {
  if (given instanceof Secret) return given;
  return typeof given === "string" ? hidden(given) : fromEnv(given.env);
}

function hidden(value: string): Secret {
  remember(value);
  return new Secret(() => value, SECRET);
}

/** A value beside others: many of them are harmless, such as a path or a mode, and would tear holes into texts. */
function toEntry<Value>(value: Value | FromEnv | Secret<Value>, name: string): Secret<Value | string> {
  if (value instanceof Secret) return value;
  if (isFromEnv(value)) return fromEnv(value.env);
  rememberTexts(value, name);
  return new Secret(() => value, SECRET);
}

function rememberTexts(value: unknown, name: string): void {
  if (typeof value === "string" && (isSecretName(name) || looksRandom(value))) remember(value);
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) rememberTexts(inner, Array.isArray(value) ? name : key);
}

function looksRandom(value: string): boolean {
  return value.length >= 12 && /\d/.test(value) && /[a-z]/i.test(value) && !/^[./~]/.test(value);
}

function fromEnv(name: string): Secret {
  const read = () => {
    const value = process.env[name] ?? "";
    remember(value);
    return value;
  };
  return new Secret(read, { env: name }, () => (read() === "" ? [name] : []));
}

function addressOf(text: string): Secret {
  const { username, password, pathname, searchParams, hash } = new URL(text);
  // Where there is no password, the name is the key.
  remember(decode(password === "" ? username : password));
  const fragment = hash.slice(1);
  if (looksRandom(fragment)) remember(fragment);
  const ofPath = pathname.split("/").flatMap((part) => part.split(";").slice(1));
  for (const [name, value] of [
    ...searchParams,
    ...new URLSearchParams(fragment),
    ...new URLSearchParams(ofPath.join("&")),
  ]) {
    if (isSecretName(name) || looksRandom(value)) remember(value);
    // A query may be nothing but a key.
    if (value === "" && looksRandom(name)) remember(name);
  }
  const shown = text
    .trim()
    .replace(CREDENTIALS, `$1${SECRET}@`)
    .replace(/#.+$/s, `#${SECRET}`)
    .replace(/([?&])([^&#]*)/g, (_, mark: string, part: string) => mark + hideValue(part))
    .replace(/^[^?#]*/, (path) =>
      path.replace(/(;)([^;/\\]*)/g, (_, mark: string, part: string) => mark + hideValue(part)),
    );
  return new Secret(() => text, hideCredentials(shown));
}

/** The scheme with its slashes, and what stands before the host: all that a URL takes for credentials, however it is written. */
const CREDENTIALS = /^([a-z][a-z\d+.\-\t\n\r]*:[/\\\t\n\r]*)[^/\\?#]*@/i;

/** One part of a query, or what stands behind a semicolon in a path. */
function hideValue(part: string): string {
  const end = part.indexOf("=");
  if (end >= 0) return `${part.slice(0, end)}=${SECRET}`;
  return looksRandom(part) ? SECRET : part;
}

/** Several secrets as one that is revealed at once. */
function joined<Value>(parts: Readonly<Record<string, Secret<Value>>>): Secret<Readonly<Record<string, Value>>> {
  return new Secret(
    () => mapValues(parts, (part) => part.reveal()),
    mapValues(parts, (part) => part.toJSON()),
    () => Object.values(parts).flatMap((part) => part.missing),
  );
}

function mapValues<In, Out>(
  record: Readonly<Record<string, In>>,
  map: (value: In, name: string) => Out,
): Record<string, Out> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value, name)]));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Secret);
}
