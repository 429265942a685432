/** The worker's side: finds its controller, and does what that asks until it is let go. */
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { RerollError } from "../errors/reroll-error.ts";
import { Frames, type Heartbeat } from "../workers/frames.ts";
import { Peer } from "../workers/peer.ts";
import { socketTransport } from "../workers/socket-transport.ts";
import { ANSWER_MS, introduce, type WorkerFacts } from "./handshake.ts";
import { ThreadingHost } from "./machine-host.ts";

export interface JoinOptions {
  readonly host: string;
  readonly port: number;
  readonly token: string;
  /** Certificates to trust, as text, where the controller uses TLS. */
  readonly ca?: string;
  /** The time to keep trying to reach the controller. What is reached has as long to answer, and is asked again after 10 seconds. */
  readonly timeoutMs: number;
  /** The longest time for one answer. Default 10 seconds. */
  readonly answerMs?: number;
  readonly heartbeat?: Heartbeat;
  readonly facts: Omit<WorkerFacts, "timeMs">;
  /** Its clock, in milliseconds since 1970. The controller is told the time at which it was reached, which may be long after the start. */
  readonly now: () => number;
  readonly report: (text: string) => void;
  /** Told when the controller has let it join. */
  readonly onJoined?: () => void;
}

/** A controller runs code of users and may be busy for minutes; when its process ends, the connection says so at once. */
const HEARTBEAT: Heartbeat = { everyMs: 5000, maxSilentBeats: 60 };

const TRY_AGAIN_MS = 250;

/** Resolves when the controller says that the run is over. Rejects with the reason where it cannot be joined, or is lost. */
export async function joinController({
  host,
  port,
  token,
  facts,
  now,
  report,
  heartbeat = HEARTBEAT,
  onJoined,
  ...options
}: JoinOptions): Promise<void> {
  const frames = await meet({ host, port, report, ...options }, () => ({ ...facts, timeMs: now() }), token);
  report(`Joined the controller at ${host}:${port}.`);
  onJoined?.();
  const machine = new ThreadingHost();
  const line = socketTransport(frames, heartbeat);
  const how = await new Promise<string>((resolve) => {
    line.onEnd(resolve);
    new Peer(line, machine).announce();
  });
  if (!machine.isDone)
    throw new RerollError("CONTROLLER_LOST", `The controller at ${host}:${port} ${how}. Its own output says why.`);
}

/**
 * A controller that is just ending may still take a connection, and drop it: the next one is looked for. One that is silent may be loading, on a
 * machine that is busy, and one that has this rank already may be about to find out that its worker is gone, which takes half a minute behind a
 * cut link: both are asked again.
 */
async function meet(place: Reached, facts: () => WorkerFacts, token: string): Promise<Frames> {
  const limit = AbortSignal.timeout(place.timeoutMs);
  let hasSaid = false;
  let numDropped = 0;
  for (;;) {
    const frames = new Frames(await reach(place));
    try {
      await introduce(frames, facts(), token, Math.min(place.answerMs ?? ANSWER_MS, place.timeoutMs));
      return frames;
    } catch (cause) {
      const isDropped = cause instanceof RerollError && cause.details.isDropped === true;
      await frames.close();
      if (isForNow(cause) && !limit.aborted) {
        if (!hasSaid) place.report(`${cause.message} Asking again for up to ${place.timeoutMs / 1000} seconds.`);
        hasSaid = true;
        await sleep(Math.min(ASK_AGAIN_MS, place.timeoutMs));
        continue;
      }
      if (!isDropped || ++numDropped >= MAX_DROPPED) throw cause;
      await sleep(TRY_AGAIN_MS);
    }
  }
}

/** Whether the same controller may answer otherwise in a while. */
function isForNow(cause: unknown): cause is RerollError {
  return cause instanceof RerollError && (cause.code === "RANK_TAKEN" || cause.details.isSilent === true);
}

const MAX_DROPPED = 4;
const ASK_AGAIN_MS = 1000;

type Reached = Pick<JoinOptions, "host" | "port" | "ca" | "timeoutMs" | "answerMs" | "report">;

/** Whatever starts both starts them in any order: a controller that is not there yet is waited for. */
async function reach({ host, port, ca, timeoutMs, report }: Reached): Promise<Socket> {
  const limit = AbortSignal.timeout(timeoutMs);
  let reason = "";
  const waiting = `Waiting for the controller at ${host}:${port} for up to ${timeoutMs / 1000} seconds`;
  const words = setTimeout(() => report(`${waiting}${reason}.`), QUIET_MS);
  try {
    for (;;) {
      try {
        return await open({ host, port, ca, connectMs: Math.min(CONNECT_MS, timeoutMs) });
      } catch (cause) {
        const { message, code } = cause as Error & { readonly code?: string };
        if (!NOT_YET.includes(code ?? "") || limit.aborted) throw unreachable(host, port, message, timeoutMs);
        reason = `: ${message}`;
        await sleep(TRY_AGAIN_MS);
      }
    }
  } finally {
    clearTimeout(words);
  }
}

const QUIET_MS = 1000;
const CONNECT_MS = 5000;

/** What a controller that is still to be started looks like. */
const NOT_YET = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT", "ECONNRESET"];

interface Attempt extends Pick<JoinOptions, "host" | "port"> {
  readonly ca: string | undefined;
  readonly connectMs: number;
}

function open({ host, port, ca, connectMs }: Attempt): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket =
      ca === undefined
        ? connect({ host, port }, () => resolve(socket))
        : connectTls({ host, port, ca }, () => resolve(socket));
    socket.once("error", reject);
    // The system itself tries for two minutes, and says nothing about a machine that does not answer.
    socket.setTimeout(connectMs, () =>
      socket.destroy(Object.assign(new Error(`no answer for ${connectMs / 1000} seconds`), { code: "ETIMEDOUT" })),
    );
    // With TLS, whoever has taken the connection may still be silent.
    socket.once(ca === undefined ? "connect" : "secureConnect", () => socket.setTimeout(0));
  });
}

function unreachable(host: string, port: number, why: string, timeoutMs: number): RerollError {
  return new RerollError(
    "JOIN_TIMEOUT",
    `The controller at ${host}:${port} could not be reached within ${timeoutMs / 1000} seconds: ${why}. Is it running, and is the port open?`,
    { host, port },
  );
}
