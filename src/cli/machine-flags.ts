/** The flags by which processes on several machines find each other, and what a process does with them: listen, or join. */
import { readFileSync } from "node:fs";
import { availableParallelism, hostname } from "node:os";
import { type Command, CommanderError, InvalidArgumentError } from "commander";
import { remember } from "../errors/redact-text.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { expectToken } from "../machines/handshake.ts";
import type { Launch } from "../machines/launch.ts";
import type { Machines } from "../machines/machines.ts";
import { wholeNumber } from "./flag-values.ts";
import { readVersion } from "./read-version.ts";
import { stopSignal } from "./stop-signal.ts";
import { showLife, tellParent } from "./supervised.ts";

/** Files by which connections between processes are encrypted. */
export interface TlsFlags {
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly tlsCa?: string;
}

/** How processes reach each other. */
export interface LinkFlags extends TlsFlags {
  readonly joinTimeout: number;
  /** Whether a parent watches this process. */
  readonly supervised?: boolean;
}

/** A host and a port, as a person types them. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Adds the flags to a command. */
export function withLinkFlags(command: Command): Command {
  return withTlsFlags(
    command.option("--join-timeout <seconds>", "how long processes wait for each other", wholeNumber(1), 600),
  );
}

/** Adds those of TLS. */
export function withTlsFlags(command: Command): Command {
  return command
    .option("--tls-cert <file>", "certificate of the controller: connections to it are encrypted")
    .option("--tls-key <file>", "key of that certificate")
    .option("--tls-ca <file>", "certificates that workers trust (default: the one of --tls-cert)");
}

/** `host:port`; the host may be an IPv6 address in brackets. */
export function address(text: string): Address {
  const [, bracketed, name, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/.exec(text) ?? [];
  const host = bracketed ?? name;
  if (host !== undefined && Number(port) <= 65535) return { host, port: Number(port) };
  throw new InvalidArgumentError("It takes a host and a port, such as 10.0.0.1:29500.");
}

/** Listens for the other processes of a launch. */
export async function openMachines({ host, port, worldSize }: Launch, flags: LinkFlags): Promise<Machines> {
  const token = tokenOf(process.env.REROLL_TOKEN);
  const { Machines } = await import("../machines/machines.ts");
  const { tlsCert: cert, tlsKey: key, joinTimeout } = flags;
  expectPair(flags);
  return Machines.listen({
    host,
    port,
    token,
    ...(cert !== undefined &&
      key !== undefined && { tls: { cert: textOf("--tls-cert", cert), key: textOf("--tls-key", key) } }),
    version: readVersion(),
    numWorkers: worldSize - 1,
    timeoutMs: 1000 * joinTimeout,
    report: (text) => console.error(text),
    now: Date.now,
  });
}

/** Throws for a certificate without its key, and the other way round. */
export function expectPair({ tlsCert, tlsKey }: TlsFlags): void {
  if ((tlsCert === undefined) === (tlsKey === undefined)) return;
  throw new RerollError(
    "INVALID_OPTION",
    "--tls-cert and --tls-key go together: a certificate is of no use without its key.",
  );
}

/** What a worker is, where a launcher or a person says so. */
interface WorkerPlace extends Address {
  readonly rank: number | null;
  readonly localRank: number;
  readonly localWorldSize: number;
  readonly device?: string;
}

/**
 * Works for a controller until it lets this process go. A first signal is left to the controller once that has let it join, a second ends this
 * process. One that has lost the parent that watches it ends at once: another one is started in its place, and the controller would turn that away.
 */
export async function workFor(
  { host, port, rank, ...place }: WorkerPlace,
  flags: LinkFlags,
  given?: string,
): Promise<void> {
  const token = tokenOf(given ?? process.env.REROLL_TOKEN);
  const [{ joinController }, { cudaDeviceCount }] = await Promise.all([
    import("../machines/join-controller.ts"),
    import("../torch/cuda.ts"),
  ]);
  const { tlsCert, tlsCa = tlsCert } = flags;
  let leave: (error: Error) => void = () => {};
  let hasJoined = false;
  const left = new Promise<never>((_, reject) => {
    leave = reject;
  });
  left.catch(() => {});
  const { release, exitCode } = stopSignal((isOrphaned) => {
    if (isOrphaned) leave(new RerollError("PARENT_LOST", "The process that watched this worker is gone."));
    else if (!hasJoined) leave(new CommanderError(exitCode(), "reroll.stopped", ""));
    else console.error("The controller decides when this worker ends. Press Ctrl-C again to end it at once.");
  }, flags.supervised);
  const rest = flags.supervised === true ? showLife() : () => {};
  tellParent({ kind: "joining" });
  try {
    const working = joinController({
      host,
      port,
      token,
      ...(tlsCa !== undefined && { ca: textOf("--tls-ca", tlsCa) }),
      timeoutMs: 1000 * flags.joinTimeout,
      facts: {
        version: readVersion(),
        rank,
        host: hostname(),
        pid: process.pid,
        device: place.device ?? deviceOf(place.localRank, cudaDeviceCount()),
        numCores: Math.max(1, Math.floor(availableParallelism() / place.localWorldSize)),
      },
      now: Date.now,
      report: (text) => console.error(text),
      onJoined: () => {
        hasJoined = true;
        tellParent({ kind: "joined" });
      },
    });
    await Promise.race([working, left]);
  } finally {
    rest();
    release();
  }
}

/** A launcher may show each process its own GPU alone, which then is the first. */
function deviceOf(localRank: number, numDevices: number): string {
  if (numDevices === 0) return "cpu";
  return `cuda:${numDevices === 1 ? 0 : localRank % numDevices}`;
}

function tokenOf(text: string | undefined): string {
  const token = expectToken(text?.trim());
  remember(token);
  return token;
}

function textOf(flag: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new RerollError("FILE_INVALID", `${flag} ${file} cannot be read: ${String(cause)}.`, {}, { cause });
  }
}
