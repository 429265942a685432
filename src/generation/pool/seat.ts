/**
 * The place of one engine in a pool. The engine in it may be lost; it is then opened again, as often as it takes.
 *
 * A seat serves while its engine has the weights that were published last. Whoever publishes gives them to one that was opened again, unless
 * it brings them along, as a server does that loads them from files.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { joinTokens } from "../../flow/sampled-tokens.ts";
import type { WorkLog, WorkStage } from "../../flow/worker-facts.ts";
import type { EngineCounters, ServedEngine } from "../engine.ts";
import type { GenerateRequest, Generation } from "../generate.ts";

/** What a seat is made from. */
interface SeatSource<Held extends ServedEngine> {
  /** Names the engine to people: "engine 2 (cuda:1)", or the address of a server. */
  readonly name: string;
  /** Opens an engine, at the start and again after each loss. */
  open(): Promise<Held>;
  /** Whether an engine that was opened again already has the weights that were published last. */
  readonly bringsWeights: boolean;
  /** Whether it is a server elsewhere, which somebody may have to start again. Default false. */
  readonly isElsewhere?: boolean;
  /** Told when the engine is lost, when it is back, and why it could not be opened again. */
  readonly report?: (text: string) => void;
  /** Told when the engine generates and takes weights. */
  readonly log?: WorkLog;
  /** The name of its lane in that log. Default: `name`. */
  readonly worker?: string;
}

/** Waits between two attempts to open a lost engine again, the last of them from then on. */
const REOPEN_DELAYS_MS = [0, 1000, 5000, 30_000];

/** An engine that has failed so often since it last served is no longer counted on, though it is still tried. */
const MAX_FAILURES = 3;

/** The same for a server elsewhere, which somebody may have to start again: with others beside it, seven minutes. */
const MAX_SERVER_FAILURES = 16;

/** How long an engine that is being opened is waited for when the seat is closed, as workers of any kind are. */
const CLOSING_MS = 60_000;

export class Seat<Held extends ServedEngine = ServedEngine> {
  readonly #source: SeatSource<Held>;
  #engine: Held | null;
  #isServing = false;
  #isClosed = false;
  #lostBy: RerollError | null = null;
  #reopening: Promise<void> = Promise.resolve();
  /** How often it could not be opened, or was lost before it served. */
  #numFailures = 0;
  #wake: () => void = () => {};
  /** What engines that were lost have done. */
  #past: EngineCounters = nothingDone;
  /** Requests that it works on. */
  load = 0;
  /** Told whenever the seat serves again, and when it is no longer counted on. */
  onChange: () => void = () => {};
  /** Told when the engine is lost, and when it was opened again and has no weights yet. */
  onOutage: () => void = () => {};

  private constructor(source: SeatSource<Held>, engine: Held) {
    this.#source = source;
    this.#engine = engine;
  }

  /** Opens the engine. The seat serves once it has been given weights. Rejects with the name of an engine that ended meanwhile. */
  static async open<Held extends ServedEngine>(source: SeatSource<Held>): Promise<Seat<Held>> {
    const engine = await source.open().catch((cause: unknown) => {
      throw notOpened(source.name, cause);
    });
    return new Seat(source, engine);
  }

  get name(): string {
    return this.#source.name;
  }

  /** The engine; null while it is lost. */
  get engine(): Held | null {
    return this.#engine;
  }

  get isServing(): boolean {
    return this.#isServing;
  }

  /** Whether it serves, or is expected to. */
  get canReturn(): boolean {
    if (this.#isServing) return true;
    if (this.#isClosed || isTaken(this.#lostBy)) return false;
    return this.#numFailures < this.#maxFailures;
  }

  get #maxFailures(): number {
    return this.#source.isElsewhere ? MAX_SERVER_FAILURES : MAX_FAILURES;
  }

  /** Why the engine was lost; null while there is one. */
  get lostBy(): RerollError | null {
    return this.#lostBy;
  }

  get counters(): EngineCounters {
    return sumCounters([this.#past, ...(this.#engine === null ? [] : [this.#engine.status().counters])]);
  }

  /** A reply of the engine, and whether the engine was lost over it. Rejects for a request that can never work. */
  async generate(request: GenerateRequest): Promise<{ readonly generation: Generation; readonly isLost: boolean }> {
    const engine = this.#engine!;
    this.load++;
    this.#tell("begin", "generating");
    try {
      const generation = await engine.generate(request);
      const { finish } = generation;
      return { generation, isLost: finish.kind === "failed" && this.#noticeLoss(engine, finish.error) };
    } catch (cause) {
      const error = asError(cause);
      if (!this.#noticeLoss(engine, error)) throw cause;
      return { generation: nothingDrawn(request, error), isLost: true };
    } finally {
      this.load--;
      this.#tell("end", "generating");
    }
  }

  /** Gives the engine new weights, and serves with them. An engine that does not take them is lost. */
  async give(hand: (engine: Held) => Promise<void>): Promise<void> {
    this.#tell("begin", "sync");
    const isGiven = await this.ask(hand);
    this.#tell("end", "sync");
    if (isGiven) this.#serve();
  }

  /** Asks something of the engine. One that fails is lost. Returns whether it did what was asked. */
  async ask(call: (engine: Held) => Promise<void>): Promise<boolean> {
    const engine = this.#engine;
    if (engine === null) return false;
    try {
      await call(engine);
    } catch (cause) {
      this.#lose(engine, asError(cause));
    }
    return engine === this.#engine;
  }

  /** Resolves when its engine is closed. One that is being opened is waited for within a limit; it is closed when it comes in any case. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#isServing = false;
    this.#wake();
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSING_MS);
    });
    await Promise.race([this.#reopening, limit]);
    clearTimeout(timer);
    await this.#engine?.close();
  }

  #tell(what: keyof WorkLog, stage: WorkStage): void {
    const { log, worker = this.name } = this.#source;
    log?.[what](worker, stage);
  }

  #serve(): void {
    if (this.#isServing || this.#isClosed) return;
    this.#isServing = true;
    this.#numFailures = 0;
    this.onChange();
  }

  /** Whether this engine is gone, and did not just fail to answer one request. */
  #noticeLoss(engine: Held, error: RerollError): boolean {
    const isGone = engine.status().brokenBy !== undefined;
    if (isGone) this.#lose(engine, error);
    return isGone || engine !== this.#engine;
  }

  #lose(engine: Held, reason: RerollError): void {
    if (engine !== this.#engine || this.#isClosed) return;
    this.#past = this.counters;
    this.#engine = null;
    this.#lostBy = reason;
    if (!this.#isServing) this.#fail();
    this.#isServing = false;
    this.#source.report?.(`${this.name} is lost: ${reason.message} Its requests go on elsewhere.`);
    if (!isTaken(reason)) this.#reopening = this.#reopen(engine);
    this.onOutage();
  }

  /** Never rejects: whoever needs the engine sees that it is not there. */
  async #reopen(lost: Held): Promise<void> {
    const { open, bringsWeights, report } = this.#source;
    // A thread that is gone has nothing to free, and says so.
    await lost.close().catch(() => {});
    for (let attempt = 0; !this.#isClosed; attempt++) {
      await this.#sleep(REOPEN_DELAYS_MS[Math.min(this.#numFailures, REOPEN_DELAYS_MS.length - 1)]!);
      if (this.#isClosed) return;
      let engine: Held;
      try {
        engine = await open();
      } catch (cause) {
        if (attempt === 0) report?.(`${this.name} could not be opened again: ${asError(cause).message}`);
        this.#fail();
        continue;
      }
      // Nobody may wait for it any more.
      if (this.#isClosed) return void (await engine.close().catch(() => {}));
      this.#engine = engine;
      this.#lostBy = null;
      report?.(`${this.name} is back${bringsWeights ? "." : ", and is given the weights."}`);
      if (bringsWeights) this.#serve();
      else this.onOutage();
      return;
    }
  }

  #fail(): void {
    if (++this.#numFailures === this.#maxFailures) this.onChange();
  }

  #sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, delayMs).unref();
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

const nothingDone: EngineCounters = {
  ...{ requests: 0, finished: 0, aborted: 0, failed: 0 },
  ...{ prefilledTokens: 0, cachedTokens: 0, generatedTokens: 0, steps: 0 },
};

/** What several engines have done together. */
export function sumCounters(all: readonly EngineCounters[]): EngineCounters {
  const sum = { ...nothingDone } as Record<keyof EngineCounters, number>;
  for (const counters of all)
    for (const name of Object.keys(sum) as (keyof EngineCounters)[]) sum[name] += counters[name];
  return sum;
}

function nothingDrawn({ promptIds }: GenerateRequest, error: RerollError): Generation {
  return {
    ...joinTokens([]),
    finish: { kind: "failed", error },
    usage: { promptTokens: promptIds.length, cachedTokens: 0, generatedTokens: 0 },
  };
}

/** What could not work says by itself what to change. */
function notOpened(name: string, cause: unknown): unknown {
  if (!(cause instanceof RerollError) || cause.code !== "ENGINE_BROKEN") return cause;
  return new RerollError(
    "ENGINE_BROKEN",
    `${name} could not be opened: ${cause.message} Look for what ended it, such as a lack of memory, and start the run again.`,
    cause.details,
    { cause },
  );
}

/** Whether the engine is another run's from now on. */
function isTaken(reason: RerollError | null): boolean {
  return reason?.code === "REMOTE_TAKEN";
}

function asError(cause: unknown): RerollError {
  return cause instanceof RerollError ? cause : new RerollError("ENGINE_BROKEN", String(cause), {}, { cause });
}
