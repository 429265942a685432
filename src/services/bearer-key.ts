/** Bearer-token authentication that takes the same time for every wrong key. */

import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { RerollError } from "../errors/reroll-error.ts";

/** Throws for a key that no client could send: an empty one, or one with spaces or letters that headers do not carry. */
export function expectUsableKey(apiKey: string): void {
  if (/^[\x21-\x7e]+$/.test(apiKey)) return;
  throw new RerollError(
    "INVALID_OPTION",
    `The API key has ${apiKey.length} characters, and not all can be sent in a header. Use one or more ASCII letters, digits and signs, without spaces.`,
  );
}

/** Returns a check of request headers that throws KEY_INVALID. OpenAI's clients send the key as bearer token, Anthropic's as x-api-key. */
export function createKeyCheck(apiKey: string): (headers: IncomingHttpHeaders) => void {
  expectUsableKey(apiKey);
  const expected = digest(apiKey);
  return ({ authorization, "x-api-key": plain }) => {
    const given =
      /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1] ?? (typeof plain === "string" ? plain : undefined);
    if (given !== undefined && timingSafeEqual(digest(given), expected)) return;
    throw new RerollError(
      "KEY_INVALID",
      given === undefined
        ? "No API key was sent. Send it in the header authorization: Bearer <key>, or as x-api-key."
        : "The API key is wrong. Use the one that the server was started with.",
    );
  };
}

/** Digests have one length, so the comparison tells nothing about the key's. */
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
