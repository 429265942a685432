/**
 * The controller's side: listens for workers of other machines, and starts what a run needs on them.
 *
 * A machine is a line over which modules are started; each started module is a line of its own within it, and is called as one in a
 * thread is. A machine that is lost ends all of them.
 */
import { randomUUID } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { RerollError } from "../errors/reroll-error.ts";
import { Frames, type Heartbeat } from "../workers/frames.ts";
import { oneWay } from "../workers/luggage.ts";
import { Remote } from "../workers/remote.ts";
import { socketTransport } from "../workers/socket-transport.ts";
import type { Start } from "../workers/start.ts";
import type { Transport } from "../workers/transport.ts";
import { receiveWorker, type WorkerFacts } from "./handshake.ts";
import { LatestTexts } from "./latest-texts.ts";
import { type MachineHost, moduleName } from "./machine-host.ts";

/** A worker that has joined, as a place for one rank. */
export interface Machine extends Pick<WorkerFacts, "device" | "numCores"> {
  /** A name for people: its host and process. */
  readonly name: string;
  /** Where other machines reach it. */
  readonly address: string;
  readonly start: Start;
}

/** Certificate and key of the controller, as text. */
interface TlsTexts {
  readonly cert: string;
  readonly key: string;
}

interface ListenOptions {
  readonly host: string;
  readonly port: number;
  readonly token: string;
  readonly tls?: TlsTexts;
  /** The version of reroll, which workers must have too. */
  readonly version: string;
  /** The number of workers that the run needs. Those of a launcher have the ranks 1, 2, ... */
  readonly numWorkers: number;
  readonly timeoutMs: number;
  readonly heartbeat?: Heartbeat;
  /** Told who joins, and who may not. */
  readonly report: (text: string) => void;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Half a minute without a sign: longer than a busy machine takes, and short enough that nobody waits for a dead one. */
const HEARTBEAT: Heartbeat = { everyMs: 5000, maxSilentBeats: 6 };

/** Clocks that differ by more make a mess of the times of files and of the timeline. */
const MAX_SKEW_MS = 60_000;

/** Reasons of refusals that are said once; whoever scans ports for weeks finds no end of them. */
const MAX_REFUSALS = 100;

interface Joined {
  readonly facts: WorkerFacts;
  readonly remote: Remote<MachineHost>;
  readonly machine: Machine;
  /** Where this machine was reached. */
  readonly localAddress: string;
}

/** The workers of a run on other machines. */
export class Machines {
  readonly #options: ListenOptions;
  readonly #server: Server;
  readonly #joined: Joined[] = [];
  readonly #refusals = new LatestTexts(MAX_REFUSALS);
  #onChange = () => {};
  #lose: (error: RerollError) => void = () => {};
  #isClosing = false;
  /** Rejects when a machine that has joined is lost. */
  readonly lost: Promise<never>;

  private constructor(options: ListenOptions) {
    this.#options = options;
    const accept = (socket: Socket) => void this.#accept(socket);
    this.#server = options.tls === undefined ? createServer(accept) : createTlsServer({ ...options.tls }, accept);
    this.lost = new Promise((_, reject) => {
      this.#lose = reject;
    });
    this.lost.catch(() => {});
  }

  /** Listens. Rejects with LISTEN_FAILED where it cannot. */
  static async listen(options: ListenOptions): Promise<Machines> {
    const machines = new Machines(options);
    const { host, port } = options;
    await new Promise<void>((resolve, reject) => {
      machines.#server.once("error", (cause) => reject(cannotListen(cause, host, port)));
      machines.#server.listen({ host, port }, resolve);
    });
    return machines;
  }

  /** The port that workers join at. */
  get port(): number {
    return (this.#server.address() as { readonly port: number }).port;
  }

  /** Where the other machines reach this one. */
  get address(): string {
    const addresses = this.#joined.map(({ localAddress }) => localAddress);
    return addresses.find((address) => !isLoopback(address)) ?? addresses[0] ?? "127.0.0.1";
  }

  /** All machines in the order of their ranks, when they are there. Rejects with JOIN_TIMEOUT, which says who did not come. */
  async all(): Promise<readonly Machine[]> {
    const { numWorkers, timeoutMs, report } = this.#options;
    const isComplete = () => this.#joined.length === numWorkers;
    if (!isComplete())
      report(`Waiting at ${this.#place()} for ${numWorkers - this.#joined.length} of ${numWorkers} workers.`);
    await Promise.race([
      this.lost,
      new Promise<void>((resolve, reject) => {
        const limit = setTimeout(() => reject(this.#incomplete()), timeoutMs);
        this.#onChange = () => {
          if (!isComplete()) return;
          clearTimeout(limit);
          resolve();
        };
        this.#onChange();
      }),
    ]);
    const byRank = [...this.#joined].sort((a, b) => (a.facts.rank ?? 0) - (b.facts.rank ?? 0));
    return byRank.map(({ machine }) => ({
      ...machine,
      // A worker on this very machine is where this machine is.
      address: isLoopback(machine.address) ? this.address : machine.address,
    }));
  }

  /** Throws where a machine does not see the folder of the run, or one of the others, as this one does. */
  async expectShared(folder: string, others: readonly string[]): Promise<void> {
    const [file, text] = [join(folder, `.shared-${randomUUID()}`), randomUUID()];
    writeFileSync(file, text);
    try {
      await Promise.all(
        this.#joined.map(({ remote }) => remote.ask.enter(process.cwd(), { folder, file, text }, others)),
      );
    } finally {
      rmSync(file, { force: true });
    }
  }

  /** Lets the workers go: the run is over. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#server.close();
    await Promise.all(this.#joined.map(({ remote }) => remote.close().catch(() => {})));
  }

  /** Leaves the workers without a word, so that they fail too, and whoever started them may start all again. */
  async abandon(): Promise<void> {
    this.#isClosing = true;
    this.#server.close();
    const reason = new RerollError("MACHINE_LOST", "The run has failed.");
    await Promise.all(this.#joined.map(({ remote }) => remote.end(reason)));
  }

  async #accept(socket: Socket): Promise<void> {
    const frames = new Frames(socket);
    const { token, report, heartbeat = HEARTBEAT } = this.#options;
    const from = plain(socket.remoteAddress);
    try {
      const facts = await receiveWorker(frames, token, (worker) => this.#admit(worker));
      const name = `${facts.host} (process ${facts.pid})`;
      const lost = (how: string) => new RerollError("MACHINE_LOST", `The worker on ${name} ${how}.`);
      const remote = new Remote<MachineHost>(socketTransport(frames, heartbeat), { lost });
      const { device, numCores } = facts;
      const machine = { name, address: from, device, numCores, start: startOn(remote, name) };
      this.#joined.push({ facts, remote, machine, localAddress: plain(socket.localAddress) });
      frames.onEnd((how) => {
        if (this.#isClosing) return;
        // Whoever comes back joins the next controller, and not one that is about to end.
        this.#server.close();
        this.#lose(lost(how));
      });
      this.#onChange();
    } catch (cause) {
      const reason = `A worker at ${from} could not join: ${cause instanceof Error ? cause.message : String(cause)}`;
      // Said once of each worker that asks again and again.
      if (this.#refusals.add(reason)) report(reason);
      await frames.close();
    }
  }

  /** Throws where a worker may not join. */
  #admit({ version, rank, host, timeMs }: WorkerFacts): void {
    const { version: own, numWorkers, now } = this.#options;
    const refuse = (text: string, code: "JOIN_REFUSED" | "RANK_TAKEN" = "JOIN_REFUSED") => {
      throw new RerollError(code, text);
    };
    if (version !== own)
      refuse(
        `The worker on ${host} has reroll ${version}, and the controller ${own}. Install the same version on all machines.`,
      );
    const skew = Math.round((timeMs - now()) / 1000);
    if (Math.abs(skew) * 1000 > MAX_SKEW_MS)
      refuse(
        `The clock of ${host} is ${Math.abs(skew)} seconds ${skew > 0 ? "ahead of" : "behind"} that of the controller. At most ${MAX_SKEW_MS / 1000} are allowed: set the clocks, for instance with chrony.`,
      );
    if (rank === null) {
      if (this.#joined.length >= numWorkers)
        refuse(
          `The run has as many workers as it was started for: ${numWorkers}. --workers says how many.`,
          "RANK_TAKEN",
        );
      return;
    }
    if (rank === 0 || rank > numWorkers)
      refuse(
        `The worker on ${host} has rank ${rank}; workers of this run have the ranks 1 to ${numWorkers}. Is WORLD_SIZE the same everywhere?`,
      );
    const twin = this.#joined.find(({ facts }) => facts.rank === rank);
    if (twin !== undefined)
      refuse(
        `Rank ${rank} is there already: ${twin.machine.name}. Give every process a rank of its own.`,
        "RANK_TAKEN",
      );
  }

  #incomplete(): RerollError {
    const { numWorkers, timeoutMs } = this.#options;
    const here = this.#joined.map(({ machine }) => machine.name);
    const came = here.length === 0 ? "None came" : `There are ${here.join(", ")}`;
    const refused = this.#refusals.last === undefined ? "" : ` ${this.#refusals.last}`;
    return new RerollError(
      "JOIN_TIMEOUT",
      `${numWorkers} workers were expected at ${this.#place()} within ${timeoutMs / 1000} seconds. ${came}.${refused}`,
    );
  }

  #place(): string {
    return `${this.#options.host}:${this.port}`;
  }
}

let numStarted = 0;

/** Starts modules on a machine: each is a line of its own within that of the machine. */
function startOn(remote: Remote<MachineHost>, name: string): Start {
  return (module, source, { lost, carrier }) => {
    const number = ++numStarted;
    const early: unknown[] = [];
    let hear = (message: unknown): void => void early.push(message);
    const ended = remote.ask.host(
      number,
      moduleName(module),
      source,
      oneWay((message: unknown) => hear(message)),
    );
    const line: Transport = {
      post: (message) => remote.tell.post(number, message),
      onMessage: (listen) => {
        hear = listen;
        for (const message of early.splice(0)) listen(message);
      },
      onEnd: (listen) => {
        ended.then(
          (how) => listen(`on ${name} ${how}`),
          (error: Error) => listen(`was lost with its machine: ${error.message.replace(/\.$/, "")}`),
        );
      },
      close: async () => {
        if (remote.ended === null) await remote.ask.stop(number);
      },
    };
    return new Remote(line, { lost, ...(carrier !== undefined && { carrier }) });
  };
}

function cannotListen(cause: Error & { readonly code?: string }, host: string, port: number): RerollError {
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: `port ${port} on ${host} is in use, perhaps by another controller. End that one, or choose another port`,
    EADDRNOTAVAIL: `${host} is not an address of this machine. Give --listen one that is; under a launcher, the process with rank 0 must run on the machine that MASTER_ADDR names`,
    EACCES: `port ${port} needs more rights than this process has. Choose a port of 1024 or more`,
    ENOTFOUND: `the host name ${host} is not known. Use a name or an address that all machines know`,
  };
  const reason = reasons[cause.code ?? ""] ?? cause.message;
  return new RerollError(
    "LISTEN_FAILED",
    `The controller cannot listen for workers: ${reason}.`,
    { host, port },
    { cause },
  );
}

function plain(address = "unknown"): string {
  return address.replace(/^::ffff:/, "");
}

function isLoopback(address: string): boolean {
  return address === "::1" || address.startsWith("127.");
}
