/**
 * Which engine of a pool a request goes to: the one that has its cache, else the one with the least to do.
 *
 * The turns of a session stay together. So do the samples of one prompt, as long as that keeps no other engine idle: computing a prompt
 * twice costs less than an engine that waits.
 */
import { createHash } from "node:crypto";
import type { GenerateRequest } from "../generate.ts";
import type { Seat } from "./seat.ts";

/** A group of the default size stays whole; beyond that many requests more than the idlest engine has, a prompt is computed again. */
const MAX_LEAD = 8;

/** Several times what an engine has under way: entries that nobody asks for again fall out. */
const REMEMBERED_PER_ENGINE = 2048;

export class Affinity {
  readonly #seats: readonly Seat[];
  readonly #bySession = new Map<string, Seat>();
  readonly #byPrompt = new Map<string, Seat>();

  constructor(seats: readonly Seat[]) {
    this.#seats = seats;
  }

  /** The seat for a request; undefined while none serves. */
  choose({ sessionId, promptIds }: GenerateRequest): Seat | undefined {
    // Nothing to choose, and nothing to remember.
    if (this.#seats.length === 1) return this.#idlest();
    const known = sessionId === undefined ? undefined : this.#bySession.get(sessionId);
    if (sessionId !== undefined && known?.isServing) return this.#remember(this.#bySession, sessionId, known);
    const idlest = this.#idlest();
    if (idlest === undefined) return undefined;
    const key = promptKey(promptIds);
    const owner = this.#byPrompt.get(key);
    const seat = owner?.isServing && owner.load - idlest.load < MAX_LEAD ? owner : idlest;
    if (sessionId !== undefined) this.#remember(this.#bySession, sessionId, seat);
    return this.#remember(this.#byPrompt, key, seat);
  }

  /** Looks at all of them for every request: a microsecond for a thousand, where nothing is allocated. */
  #idlest(): Seat | undefined {
    let least: Seat | undefined;
    for (const seat of this.#seats) if (seat.isServing && (least === undefined || seat.load < least.load)) least = seat;
    return least;
  }

  /** Insertion order is the order of last use. */
  #remember(map: Map<string, Seat>, key: string, seat: Seat): Seat {
    map.delete(key);
    map.set(key, seat);
    if (map.size > REMEMBERED_PER_ENGINE * this.#seats.length) map.delete(map.keys().next().value!);
    return seat;
  }
}

function promptKey(promptIds: ArrayLike<number>): string {
  return createHash("sha256").update(Int32Array.from(promptIds)).digest("base64");
}
