/** Where a server listens, who can reach it there, and why it cannot. */
import { RerollError } from "../errors/reroll-error.ts";

/** Where to listen. */
export interface ListenAddress {
  /** Default 127.0.0.1: this machine only. */
  readonly host?: string;
  /** Default 0: any free one. */
  readonly port?: number;
  /** Lets anyone who can reach the host use the server although it has no API key. */
  readonly allowWithoutKey?: boolean;
}

const LOOPBACK = /^((.+\.)?localhost|(::ffff:)?127(\.\d{1,3}){3}|\[?::1\]?)$/i;

/** Whether only programs on this machine reach a host. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}

/** What to tell a person about a failure to listen. */
export function listenError(
  cause: Error & { code?: string },
  { host, port }: { host: string; port: number },
): RerollError {
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: `port ${port} on ${host} is in use. Stop the program that uses it, or choose another port; 0 takes a free one`,
    EACCES: `port ${port} on ${host} needs more rights than this process has. Choose a port of 1024 or more`,
    EADDRNOTAVAIL: `${host} is not an address of this machine. Use 127.0.0.1, or 0.0.0.0 for all of its addresses`,
    ENOTFOUND: `the host name ${host} is not known. Use 127.0.0.1, or 0.0.0.0 for all addresses of this machine`,
  };
  const reason = reasons[cause.code ?? ""] ?? `listening on ${host}, port ${port} failed: ${cause.message}`;
  return new RerollError("LISTEN_FAILED", `The server cannot start: ${reason}.`, { host, port }, { cause });
}
