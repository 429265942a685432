/**
 * The ranks of a split engine beside its first, which schedules, draws and answers: each has its part of the model and of the cache, in a process.
 *
 * Before a step the first rank tells the others a plan of it; all then run the same forward pass and meet in its sums. A rank that is lost, or a step that fails on one of them, is the end of the engine: its owner is told, and ends it.
 */
import { RerollError } from "../../../errors/reroll-error.ts";
import { tensor } from "../../../torch/create.ts";
import { openStore, type Store } from "../../../torch/distributed/rendezvous.ts";
import { tensorScope } from "../../../torch/scope.ts";
import type { Remote } from "../../../workers/remote.ts";
import { startInProcess } from "../../../workers/start-in-process.ts";
import type { EngineSource } from "../engine-host.ts";
import type { StepPiece } from "../paged-layout.ts";
import type { CacheCopy } from "../scheduler.ts";
import type { EngineRank, RankSource } from "./engine-rank.ts";
import { type EngineSplit, type JoinedRank, joinRanks } from "./join-ranks.ts";
import { packWork, type RankWork } from "./step-plan.ts";

/**
 * The longest plan that is a message, in numbers. Messages are cheaper than broadcasts, but of one that is more than the system buffers the rest would wait
 * for this thread, which waits for the others in their first sum. 64 kB is a third of what Linux buffers.
 */
const MAX_TOLD = 16_384;

export class OtherRanks<Rank extends EngineRank = EngineRank> {
  readonly ranks: readonly Remote<Rank>[];
  readonly #joined: JoinedRank;
  readonly #store: Store;
  /** What the caches of the others have not copied yet. */
  #blocks: readonly CacheCopy[] = [];
  #stateRows: readonly CacheCopy[] = [];
  #brokenBy: RerollError | null = null;
  #tellBroken: (error: RerollError) => void = () => {};
  #isClosing = false;

  private constructor(ranks: readonly Remote<Rank>[], joined: JoinedRank, store: Store) {
    this.ranks = ranks;
    this.#joined = joined;
    this.#store = store;
    // Lasts as long as the rank.
    for (const { ask } of this.#all) ask.stay().catch((cause: unknown) => this.#break(cause));
  }

  /**
   * Starts a process for each, and meets them. They load their parts meanwhile: see `ready`.
   *
   * @param module hosts an EngineRank
   */
  static async start<Rank extends EngineRank>(
    source: EngineSource,
    split: EngineSplit,
    module: URL,
  ): Promise<OtherRanks<Rank>> {
    const store = await openStore({ type: "tcp", host: "127.0.0.1", port: 0, isServer: true });
    const port = store.port!;
    const ranks = split.devices.slice(1).map((device, i) => {
      const own: RankSource = { ...source, device, split, rank: { index: i + 1, port } };
      return startInProcess<Rank>(module, own, {
        lost: (how) => new RerollError("ENGINE_BROKEN", `Rank ${i + 1} of the engine, on ${device}, ${how}.`),
      });
    });
    const joining = joinRanks(split, 0, port);
    const failing = Promise.all(ranks.map(({ ready }) => ready));
    failing.catch(() => {});
    try {
      // A rank that cannot start says so long before waiting for it ends.
      const joined = await Promise.race([joining, failing.then(() => joining)]);
      return new OtherRanks(ranks, joined, store);
    } catch (cause) {
      joining.then((one) => one.dispose()).catch(() => {});
      await Promise.all(ranks.map((rank) => rank.end(closed())));
      store.dispose();
      throw cause;
    }
  }

  get spread(): JoinedRank["spread"] {
    return this.#joined.spread;
  }

  /** When all have loaded their parts. */
  get ready(): Promise<unknown> {
    return Promise.all(this.ranks.map(({ ready }) => ready));
  }

  /** Whether a rank is lost: the engine computes nothing more, and is about to end. */
  get isBroken(): boolean {
    return this.#brokenBy !== null;
  }

  /** Resolves with the reason when a rank is lost, or at once where one is. */
  get broken(): Promise<RerollError> {
    if (this.#brokenBy !== null) return Promise.resolve(this.#brokenBy);
    return new Promise((resolve) => {
      this.#tellBroken = resolve;
    });
  }

  /** Has all ranks compute a step. `compute` is the part of this one. */
  step<Result>(pieces: readonly StepPiece[], ids: Int32Array, compute: () => Result): Result {
    const [blocks, stateRows] = [this.#blocks, this.#stateRows];
    this.#blocks = [];
    this.#stateRows = [];
    return this.#together({ kind: "step", blocks, stateRows, pieces, ids }, compute);
  }

  /** The same for a prompt beside the cache. */
  score<Result>(promptIds: Int32Array, compute: () => Result): Result {
    return this.#together({ kind: "score", promptIds }, compute);
  }

  /** Copies in their caches what was copied in the first one's, before they read it. */
  copy(blocks: readonly CacheCopy[], stateRows: readonly CacheCopy[]): void {
    this.#blocks = [...this.#blocks, ...blocks];
    this.#stateRows = [...this.#stateRows, ...stateRows];
  }

  /** They give their caches back until the next step. */
  sleep(): void {
    this.#blocks = [];
    this.#stateRows = [];
    for (const { tell } of this.#all) tell.sleep();
  }

  /** Each reads its part of the weights of a Hugging Face folder, and this rank with `loadOwn`. Where only some can, that is the end of the engine. */
  async loadWeights(folder: string, loadOwn: () => void): Promise<void> {
    const given = this.#all.map(({ ask }) => ask.loadWeights(folder));
    const settled = await Promise.allSettled([...given, (async () => loadOwn())()]);
    const failed = settled.filter((one) => one.status === "rejected");
    if (failed.length > 0 && failed.length < settled.length) this.#break(failed[0]!.reason);
    if (failed.length > 0) throw failed[0]!.reason;
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.allSettled(this.ranks.map((rank) => rank.close(closed())));
    this.#joined.dispose();
    this.#store.dispose();
  }

  /** Whoever has ranks that do more asks them for that itself. */
  get #all(): readonly Remote<EngineRank>[] {
    return this.ranks as unknown as readonly Remote<EngineRank>[];
  }

  #together<Result>(work: RankWork, compute: () => Result): Result {
    if (this.#brokenBy !== null) throw this.#brokenBy;
    try {
      const plan = packWork(work);
      const isShort = plan.length <= MAX_TOLD;
      for (const { tell } of this.#all) tell.work(isShort ? plan : plan.length);
      if (!isShort) tensorScope(() => void this.#joined.plans.broadcast_(tensor(plan, [plan.length]), 0));
      return compute();
    } catch (cause) {
      this.#break(cause);
      throw cause;
    }
  }

  /** The other ranks end now: one may wait for a sum that never comes. */
  #break(cause: unknown): void {
    if (this.#isClosing || this.#brokenBy !== null) return;
    const reason = cause instanceof Error ? cause.message : String(cause);
    const error = new RerollError("ENGINE_BROKEN", `The engine lost a rank: ${reason}`, {}, { cause });
    this.#brokenBy = error;
    for (const rank of this.ranks) void rank.end(error);
    this.#tellBroken(error);
  }
}

function closed(): RerollError {
  return new RerollError("ENGINE_CLOSED", "This engine is closed.");
}
