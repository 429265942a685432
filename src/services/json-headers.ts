/** What every call in JSON says of itself: its type, and the key or the credentials that it brings. */
import { validateHeaderValue } from "node:http";
import { RerollError } from "../errors/reroll-error.ts";
import type { splitAddress } from "../errors/secret.ts";

type Headers = Readonly<Record<string, string>>;

/** Headers for a server. A key takes the place of credentials in the address; one that no header can hold is refused here, and not with every call. */
export function jsonHeaders({ url, headers }: ReturnType<typeof splitAddress>, apiKey: string | undefined): Headers {
  const type = { "content-type": "application/json" };
  if (apiKey === undefined) return { ...type, ...headers };
  const authorization = `Bearer ${apiKey}`;
  try {
    validateHeaderValue("authorization", authorization);
  } catch {
    throw new RerollError(
      "INVALID_OPTION",
      `The API key for ${url} cannot be sent: it holds a line break, or another character that no header can. Correct apiKey, or the variable that it is read from.`,
    );
  }
  return { ...type, authorization };
}
