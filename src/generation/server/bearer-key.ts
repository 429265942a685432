/** Bearer-token authentication that takes the same time for every wrong key. */
import { createHash, timingSafeEqual } from "node:crypto";
import { RerollError } from "../../errors/reroll-error.ts";

/** Returns a check of `authorization` headers that throws KEY_INVALID. */
export function createKeyCheck(apiKey: string): (authorization: string | undefined) => void {
  const expected = digest(apiKey);
  return (authorization) => {
    const given = /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1];
    if (given !== undefined && timingSafeEqual(digest(given), expected)) return;
    throw new RerollError(
      "KEY_INVALID",
      given === undefined
        ? "No API key was sent. Send it in the header authorization: Bearer <key>."
        : "The API key is wrong. Use the one that the server was started with.",
    );
  };
}

/** Digests have one length, so the comparison tells nothing about the key's. */
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
