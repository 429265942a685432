/**
 * Weights that are handed to servers elsewhere while the trainer lends them: who gets them, what a server was given last, and what becomes of
 * one that does not take them.
 *
 * A server that is lost takes nobody with it: the others are sent the same version again. One that comes back is sent the version that was published
 * last, where the trainer still has it; else the next one, or what the trainer has by then where no other serves.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { Seat } from "../generation/pool/seat.ts";
import type { HttpClient } from "../generation/remote/http-client.ts";
import { Lifeline } from "../generation/remote/lifeline.ts";
import type { GivenWeights } from "../generation/remote/remote-weights.ts";
import { type AnnouncedWeights, askRoute, type WeightRoutes } from "../generation/remote/weight-routes.ts";
import { WeightsGate } from "../generation/remote/weights-gate.ts";
import type { Trainer } from "../training/trainer.ts";
import type { EngineSync } from "./engine-parts.ts";

/**
 * The longest wait for a server that was asked to join, to stop, to read all weights or to go on, and for each weight that is sent. Servers
 * answer in seconds, and one that does not may hold the trainer's GPU with it.
 */
export const STALL_MS = 60_000;

/** A server, as weights are sent to it. */
export interface SendingLine {
  readonly http: HttpClient;
  readonly routes: WeightRoutes;
  readonly seat: Seat;
  readonly weights: SentWeights;
}

/** What a server was sent last. It is not sent again from here: whoever has the trainer's weights does so when the server is back. */
export class SentWeights implements GivenWeights {
  readonly #run: string;
  readonly #url: string;
  readonly adapter = undefined;
  readonly gate = new WeightsGate();
  announced: AnnouncedWeights | null = null;
  numLoads = 0;
  #line: Lifeline | null = null;
  #tellsRun = false;
  #release: ((failure?: unknown) => void) | null = null;

  constructor(run: string, url: string) {
    this.#run = run;
    this.#url = url;
  }

  get isLost(): boolean {
    // Replies that say whose weights drew them are the better witness: a line may be cut on its way.
    return !this.#tellsRun && this.hasEnded;
  }

  /** Whether the server may have ended since it was last sent weights, and with it its place in a group. */
  get hasEnded(): boolean {
    return this.#line?.isCut ?? false;
  }

  /**
   * What the server is about to be sent. One that ends from now on is noticed. Where it does not itself say whose weights it has, requests wait for
   * the end of the change.
   */
  async begin(version: number, tellsRun: boolean): Promise<AnnouncedWeights> {
    this.#tellsRun = tellsRun;
    if (this.#line === null || this.#line.isCut) this.#line = await Lifeline.open(this.#url);
    if (!tellsRun) this.#release ??= this.gate.hold();
    return { run: this.#run, version };
  }

  took(weights: AnnouncedWeights): void {
    this.announced = weights;
    this.numLoads++;
    this.endChange();
  }

  /** The server has taken the weights, or is not waited for: with a failure, what waits for them fails. */
  endChange(failure?: RerollError): void {
    this.#release?.(failure);
    this.#release = null;
  }

  async restore(numLoads = this.numLoads): Promise<void> {
    if (numLoads !== this.numLoads) return;
    // As of a server that does not answer: its requests go on elsewhere.
    throw new RerollError(
      "REMOTE_UNAVAILABLE",
      `${this.#url} has started again and lost the weights of this run. It serves once it has been sent them again.`,
    );
  }

  close(): void {
    this.#line?.close();
  }
}

/** How a version reaches the servers that are there. */
export interface Transport {
  /** Resolves with the bytes that were received in all. */
  send(trainer: Trainer, version: number, members: readonly SendingLine[]): Promise<number>;
  /** Forgets what may be half-way, after a failure. */
  reset(): void;
  close(): Promise<void>;
}

export function sendingSync(
  transport: Transport,
  servers: readonly SendingLine[],
  trainer: Trainer,
  clock: () => number,
): Required<EngineSync> {
  const send = async (version: number, isMeant: (line: SendingLine) => boolean): Promise<Metrics> => {
    const startedMs = clock();
    try {
      for (;;) {
        const members = servers.filter((line) => line.seat.engine !== null && isMeant(line));
        if (members.length === 0) return { "sync/ms": 0, "sync/bytes": 0 };
        try {
          const numBytes = await transport.send(trainer, version, members);
          return { "sync/ms": clock() - startedMs, "sync/bytes": numBytes };
        } catch (cause) {
          transport.reset();
          await Promise.all(members.map(loseIfGone));
          if (members.every(({ seat }) => seat.engine !== null)) throw cause;
        }
      }
    } finally {
      for (const { weights, seat } of servers) weights.endChange(seat.lostBy ?? undefined);
    }
  };
  const isNew = ({ seat }: SendingLine) => !seat.isServing;
  return {
    publish: (version) => send(version, () => true),
    catchUp: async (version) => {
      await send(version, isNew).catch(async (cause: unknown) => {
        // Where no other serves, replies would wait for a publication that waits for them: it is lost once more, and sent them when it is back.
        await Promise.all(servers.filter(isNew).map(({ seat }) => seat.ask(() => Promise.reject(cause))));
      });
    },
  };
}

/** Has servers stop, take what `hand` gives each of them, and go on with it. */
export async function handToServers(
  members: readonly SendingLine[],
  version: number,
  hand: (announced: readonly AnnouncedWeights[]) => Promise<void>,
): Promise<void> {
  const announced = await Promise.all(members.map(({ weights, routes }) => weights.begin(version, routes.tellsRun)));
  await Promise.all(
    members.map(({ http, routes }) => answered(http, `stop for version ${version}`, routes.update!.begin(http))),
  );
  await hand(announced);
  await Promise.all(
    members.map(({ http, routes, seat, weights }, i) =>
      seat.give(async () => {
        await answered(http, `go on with version ${version}`, routes.update!.end(http, announced[i]!));
        weights.took(announced[i]!);
      }),
    ),
  );
}

/** Rejects with SYNC_FAILED, which names the server, where it does not answer within the limit. */
export async function answered<Answer>(
  { url }: { readonly url: string },
  what: string,
  answer: Promise<Answer>,
): Promise<Answer> {
  return within(
    answer,
    `${url} was asked to ${what} and has not answered for ${STALL_MS / 1000} s. Look at its log, and start it again.`,
  );
}

/** Rejects with SYNC_FAILED and these words where it takes longer than the limit; what it waits for then is let go. */
export async function within<Result>(work: Promise<Result>, words: string): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new RerollError("SYNC_FAILED", words)), STALL_MS);
  });
  work.catch(() => {});
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}

async function loseIfGone({ seat, http }: SendingLine): Promise<void> {
  await seat.ask(
    async () => void (await answered(http, "say its models", askRoute(http, "/v1/models", { method: "GET" }))),
  );
}
