/**
 * Answers of /v1/responses that later calls refer to, by their own id or by those of their items.
 *
 * In: an answer with the conversation up to it. Out: the conversation, so that `previous_response_id` goes on from it.
 * Bounded: the oldest answer is forgotten first. Sessions do not see each other's.
 */
import type { ChatMessage } from "../../../flow/chat-message.ts";
import type { OutputItem } from "./output-items.ts";

interface StoredResponse {
  readonly id: string;
  /** What a client gets that asks for it again. */
  readonly body: object;
  /** The conversation without its instructions, the reply included. */
  readonly messages: readonly ChatMessage[];
  readonly output: readonly OutputItem[];
}

/** Characters that all answers hold together, about; and what an answer counts for beside them. */
const MAX_CHARACTERS = 64_000_000;
const RESPONSE_COST = 1000;

export class ResponseStore {
  /** Oldest first. */
  readonly #responses = new Map<string, StoredResponse & { readonly cost: number }>();
  readonly #items = new Map<string, OutputItem>();
  readonly #maxCharacters: number;
  #numCharacters = 0;

  constructor(maxCharacters = MAX_CHARACTERS) {
    this.#maxCharacters = maxCharacters;
  }

  add(sessionId: string | undefined, response: StoredResponse): void {
    // Every message counts in every answer that holds it: the lists share them, so this errs on the safe side.
    const cost = RESPONSE_COST + JSON.stringify(response.messages).length;
    this.#responses.set(keyOf(sessionId, response.id), { ...response, cost });
    for (const item of response.output) this.#items.set(keyOf(sessionId, item.id), item);
    this.#numCharacters += cost;
    for (const key of this.#responses.keys()) {
      if (this.#numCharacters <= this.#maxCharacters) return;
      this.#forget(key);
    }
  }

  find(sessionId: string | undefined, id: string): StoredResponse | undefined {
    return this.#responses.get(keyOf(sessionId, id));
  }

  findItem(sessionId: string | undefined, id: string): OutputItem | undefined {
    return this.#items.get(keyOf(sessionId, id));
  }

  /** False when there is no such answer. */
  delete(sessionId: string | undefined, id: string): boolean {
    return this.#forget(keyOf(sessionId, id));
  }

  #forget(key: string): boolean {
    const response = this.#responses.get(key);
    if (response === undefined) return false;
    this.#responses.delete(key);
    const [session = ""] = key.split(" ");
    for (const item of response.output) this.#items.delete(`${session} ${item.id}`);
    this.#numCharacters -= response.cost;
    return true;
  }
}

/** No session has a name with a space. */
function keyOf(sessionId: string | undefined, id: string): string {
  return `${sessionId ?? ""} ${id}`;
}
