/**
 * An environment that lives elsewhere, in a thread or at a server, and survives the loss of that place.
 *
 * When its place is lost, the episode is made again in another one from the same prompt and seed, and is given the same replies. An environment
 * draws chance from its seed only, so it comes to the same state; one that does not is told apart by its answers, and fails.
 */
import { isDeepStrictEqual } from "node:util";
import { RerollError } from "../errors/reroll-error.ts";
import type { Shown } from "./env-host.ts";
import type { EnvStep, Opening, Reply, TextEnv } from "./text-env.ts";

/** Where an episode lives. */
export interface EnvPlace {
  /** False once the episode cannot be there any more. */
  readonly isThere: boolean;
  /** The opening for a reply of null. Calls are numbered from 0. */
  ask(number: number, reply: Reply | null, signal: AbortSignal): Promise<Shown<Opening | EnvStep>>;
  /** Frees what the episode holds there, and nothing where the place is gone. */
  leave(): Promise<void>;
}

/** The places that an episode may live in. */
interface EnvPlaces {
  /** Name of the environment in errors. */
  readonly name: string;
  /** Makes the episode in the next place. */
  readonly enter: (signal: AbortSignal) => Promise<EnvPlace>;
  /** Returns where the cause is that a place was lost and there may be another one. Otherwise throws what the call fails with. */
  readonly expectLoss: (cause: unknown) => void;
}

/** Makes the environment in the first place that takes it. */
export async function makeMovingEnv(places: EnvPlaces): Promise<TextEnv> {
  const env = new MovingEnv(places);
  await env.make();
  return env;
}

/** A call that was answered: the opening, or a reply and what came of it. */
interface Played {
  readonly reply: Reply | null;
  readonly answer: Opening | EnvStep;
}

class MovingEnv implements TextEnv {
  readonly #places: EnvPlaces;
  readonly #played: Played[] = [];
  #place: EnvPlace | null = null;
  #picture = "";
  #hasEnded = false;

  constructor(places: EnvPlaces) {
    this.#places = places;
  }

  make(): Promise<void> {
    return this.#lasting(async () => {}, new AbortController().signal);
  }

  async start(signal: AbortSignal): Promise<Opening> {
    return (await this.#play(null, signal)) as Opening;
  }

  async step(reply: Reply, signal: AbortSignal): Promise<EnvStep> {
    return (await this.#play(reply, signal)) as EnvStep;
  }

  render(): string {
    return this.#picture;
  }

  async end(): Promise<void> {
    this.#hasEnded = true;
    await this.#place?.leave();
  }

  async #play(reply: Reply | null, signal: AbortSignal): Promise<Opening | EnvStep> {
    const number = this.#played.length;
    const answer = await this.#lasting((place) => this.#ask(place, number, reply, signal), signal);
    this.#played.push({ reply, answer });
    return answer;
  }

  /** Does something in the place of the episode, and in the next one where that is lost. */
  async #lasting<Answer>(work: (place: EnvPlace) => Promise<Answer>, signal: AbortSignal): Promise<Answer> {
    for (;;) {
      try {
        return await work(this.#place?.isThere ? this.#place : await this.#move(signal));
      } catch (cause) {
        if (signal.aborted) throw cause;
        this.#places.expectLoss(cause);
      }
    }
  }

  /** Makes the episode in a place, and plays it to where it was. */
  async #move(signal: AbortSignal): Promise<EnvPlace> {
    const place = await this.#places.enter(signal);
    this.#place = place;
    for (const [number, { reply, answer }] of this.#played.entries()) {
      const again = await this.#ask(place, number, reply, signal);
      if (!isDeepStrictEqual(again, answer)) throw notTheSame(this.#places.name);
    }
    // Given up on in the meantime: nobody would end it any more.
    if (this.#hasEnded) await place.leave();
    return place;
  }

  async #ask(place: EnvPlace, number: number, reply: Reply | null, signal: AbortSignal): Promise<Opening | EnvStep> {
    const { answer, picture } = await place.ask(number, reply, signal);
    this.#picture = picture ?? this.#picture;
    return answer;
  }
}

function notTheSame(name: string): RerollError {
  return new RerollError(
    "ENV_BROKEN",
    `Env "${name}" lost its place, and did otherwise when it was played again in another one with the same seed and replies. ` +
      "Draw all chance from the seed that makeEnv is given.",
    { name },
  );
}
