/** JSON over HTTP for sinks: a request that ends in time, and errors that say whether it makes sense to ask again. */
import { splitAddress } from "../errors/secret.ts";
import { withTimeLimit } from "../errors/time-limit.ts";
import { DeliveryRefused } from "./delivery-queue.ts";

/** One request. */
interface JsonRequest {
  readonly url: string;
  readonly method?: "GET" | "POST";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Whether a 404 is an answer, returned as null. Default false. */
  readonly isOptional?: boolean;
  readonly signal: AbortSignal;
}

const TIMEOUT_MS = 30_000;

/** The answer as JSON. A status from 400 to 499 is a refusal, but for those that mean "later". */
export async function requestJson(request: JsonRequest): Promise<unknown> {
  const { method = "POST", headers, body, isOptional = false, signal } = request;
  const { url, headers: credentials } = splitAddress(request.url);
  const { response, text } = await withTimeLimit(TIMEOUT_MS, signal, async (limited) => {
    const response = await fetch(url, {
      method,
      headers: { "content-type": "application/json", ...credentials, ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: limited,
    });
    return { response, text: await response.text() };
  });
  if (response.ok) return text === "" ? null : JSON.parse(text);
  if (response.status === 404 && isOptional) return null;
  const problem = `${response.status} from ${new URL(url).host}: ${text.slice(0, 200)}`;
  const isFinal = response.status < 500 && ![408, 409, 425, 429].includes(response.status);
  throw isFinal ? new DeliveryRefused(problem) : new Error(problem);
}
