/**
 * Many engines behind one `Generate`, as one engine: whoever samples cannot tell how many there are.
 *
 * In: seats, each with an engine here, in another process or behind a server. A request goes where its cache is, else where there is
 * the least to do. When an engine is lost, its requests go on elsewhere with the tokens they have; it serves again once it has the
 * weights that were published last. Waits for: an engine that serves, where all are lost and one is expected back.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { EngineStatus, ServedEngine } from "../engine.ts";
import type { Finish, Generate, GenerateRequest } from "../generate.ts";
import { Affinity } from "./affinity.ts";
import { MovedReply } from "./moved-reply.ts";
import { Seat, sumCounters } from "./seat.ts";

/** A reply that has cost so many engines may be the cause, and is not asked for again. */
const MAX_LOST = 3;

interface PoolOptions {
  /** Draws of requests without a seed start here, as they do in a single engine. */
  readonly seed: number;
}

export class EnginePool implements ServedEngine {
  readonly #seats: readonly Seat[];
  readonly #affinity: Affinity;
  readonly #seed: number;
  readonly #waiting = new Set<() => void>();
  /** As it was before every engine was lost. */
  #lastStatus: EngineStatus | undefined;
  #numRequests = 0;
  #isClosed = false;

  constructor(seats: readonly Seat[], { seed }: PoolOptions) {
    this.#seats = seats;
    this.#affinity = new Affinity(seats);
    this.#seed = seed;
    for (const seat of seats) seat.onChange = () => this.#wakeAll();
  }

  readonly generate: Generate = async (request) => {
    const { sampling } = request;
    // Seeds are given here: those of an engine would depend on how many there are.
    const seeded = { ...request, sampling: { ...sampling, seed: sampling.seed ?? this.#seed + this.#numRequests++ } };
    const reply = new MovedReply(seeded, () => this.status().contextLength);
    for (let numLost = 0; ; numLost++) {
      // Without a wait where one serves: the next request must see the load of this one.
      const seat = this.#seatNow(seeded) ?? (await this.#seatLater(seeded));
      if (!(seat instanceof Seat)) return reply.ended(seat);
      // Tokens are told one by one only where there is another engine that could go on with them.
      const isAlone = this.#seats.length === 1;
      const { generation, isLost } = await seat.generate(isAlone ? seeded : reply.rest);
      if (!isLost || numLost === MAX_LOST) return reply.joined(generation);
      // The only engine draws the same tokens again when it is back; those that were shown cannot be taken back.
      const shown = isAlone && request.onTokens !== undefined ? generation.finish : null;
      const finish = shown ?? reply.move(generation);
      if (finish !== null) return reply.ended(finish);
    }
  };

  readonly scorePrompt = (promptIds: Int32Array): Promise<Float32Array> => {
    const able = this.#engines().find(({ scorePrompt }) => scorePrompt !== undefined);
    if (able === undefined)
      throw new RerollError("INVALID_REQUEST", "No engine of this run can say the log-probs of a prompt.");
    return able.scorePrompt!(promptIds);
  };

  async abortAll(): Promise<void> {
    await Promise.all(this.#engines().map((engine) => engine.abortAll()));
  }

  /** The lowest version of all engines that serve, and sums of what they do. */
  status(): EngineStatus {
    const all = this.#engines().map((engine) => engine.status());
    const counters = sumCounters(this.#seats.map((seat) => seat.counters));
    const sum = (pick: (status: EngineStatus) => number) => all.reduce((total, status) => total + pick(status), 0);
    if (all.length > 0) {
      this.#lastStatus = {
        version: Math.min(...all.map(({ version }) => version)),
        isPaused: all.every(({ isPaused }) => isPaused),
        queuedRequests: sum(({ queuedRequests }) => queuedRequests),
        runningRequests: sum(({ runningRequests }) => runningRequests),
        maxQueuedRequests: sum(({ maxQueuedRequests }) => maxQueuedRequests),
        contextLength: Math.min(...all.map(({ contextLength }) => contextLength)),
        cacheUsage: sum(({ cacheUsage }) => cacheUsage) / all.length,
        counters,
      };
    }
    const broken = this.#seats.every(({ engine, canReturn }) => engine === null && !canReturn);
    return { ...this.#lastStatus!, counters, ...(broken && { brokenBy: this.#allLost().message }) };
  }

  /** Throws where no engine has taken the weights: the reason of the only engine, or that of a server which another run has taken. */
  expectServing(version: number): void {
    if (this.#seats.some(({ isServing }) => isServing)) return;
    const cause = this.#takenBy() ?? (this.#seats.length === 1 ? this.#seats[0]!.lostBy : null);
    if (cause !== null) throw cause;
    const reasons = this.#seats.map(({ name, lostBy }) => `${name}: ${lostBy?.message ?? "it is being opened"}`);
    throw new RerollError("SYNC_FAILED", `No engine took version ${version} of the weights. ${reasons.join(" ")}`, {
      version,
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#wakeAll();
    await Promise.all(this.#seats.map((seat) => seat.close()));
  }

  #engines(): readonly ServedEngine[] {
    return this.#seats.flatMap(({ engine }) => (engine === null ? [] : [engine]));
  }

  /** A seat that serves, or how the reply ends; null where one may serve later. */
  #seatNow(request: GenerateRequest): Seat | Finish | null {
    if (request.signal?.aborted) return { kind: "aborted" };
    if (this.#isClosed) throw new RerollError("ENGINE_CLOSED", "This engine is closed.");
    const seat = this.#affinity.choose(request);
    if (seat !== undefined) return seat;
    return this.#seats.some(({ canReturn }) => canReturn) ? null : { kind: "failed", error: this.#allLost() };
  }

  async #seatLater(request: GenerateRequest): Promise<Seat | Finish> {
    for (;;) {
      await this.#whenServing(request.signal);
      const seat = this.#seatNow(request);
      if (seat !== null) return seat;
    }
  }

  #whenServing(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#waiting.delete(wake);
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal?.addEventListener("abort", wake, { once: true });
    });
  }

  #wakeAll(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  /** That another run has taken a server, which whoever asks next is told too; null where none was taken. */
  #takenBy(): RerollError | null {
    return this.#seats.find(({ lostBy }) => lostBy?.code === "REMOTE_TAKEN")?.lostBy ?? null;
  }

  #allLost(): RerollError {
    const taken = this.#takenBy();
    if (taken !== null) return taken;
    const [reason] = this.#seats.flatMap(({ lostBy }) => lostBy ?? []);
    return new RerollError(
      "ENGINE_BROKEN",
      `All ${this.#seats.length} engines are lost. The first: ${reason?.message ?? "it has no weights yet."}`,
    );
  }
}
