/**
 * How ranks find each other: a store that all of them reach, and a group that each of them joins under its rank.
 *
 * @example
 * const store = await openStore({ type: "tcp", host: "10.0.0.1", port: 29500, isServer: rank === 0 });
 * const group = await joinGroup({ store, rank, worldSize, backend: "gloo" });
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { native } from "../binding.ts";
import type { Device } from "../dtype.ts";
import { ObjectHandle } from "../operator.ts";
import { type Backend, ProcessGroup } from "./process-group.ts";

/**
 * Ten minutes: longer than the ranks of a healthy run drift apart, and short enough that a hung run is noticed.
 */
const DEFAULT_TIMEOUT_MS = 600_000;

/** The place where ranks meet. */
export type StoreOptions = TcpStoreOptions | FileStoreOptions;

/** A server in one of the processes, which the others connect to. */
interface TcpStoreOptions {
  readonly type: "tcp";
  readonly host: string;
  /** 0 on the server takes any free port; `Store.port` tells which. */
  readonly port: number;
  /** True in exactly one process, which must live until all groups are joined. */
  readonly isServer: boolean;
  /** The time to keep trying to reach the server. Default DEFAULT_TIMEOUT_MS. */
  readonly timeoutMs?: number;
}

/** A file that all processes can reach and that does not exist yet; the last of `worldSize` processes removes it. */
interface FileStoreOptions {
  readonly type: "file";
  readonly path: string;
  readonly worldSize: number;
}

/** An open store. Groups hold on to it; disposing it does not disturb them. */
export class Store extends ObjectHandle {
  /** The port of a TCP store, null for a file store. */
  readonly port: number | null;
  /** Whether every process of the store runs on this machine. */
  readonly isLocal: boolean;

  constructor(handle: number, { port, isLocal }: { readonly port: number | null; readonly isLocal: boolean }) {
    super(handle);
    this.port = port;
    this.isLocal = isLocal;
  }
}

/** Serves or reaches a store. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { type }: { readonly type: string } = options;
  if (type !== "file" && type !== "tcp") {
    throw new RerollError("INVALID_ARGUMENT", `openStore has the types "tcp" and "file": got "${type}".`);
  }
  switch (options.type) {
    case "file":
      return new Store(native.openFileStore(options.path, options.worldSize), { port: null, isLocal: false });
    case "tcp": {
      const { host, port, isServer, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
      const opened = await native.openTcpStore(host, port, isServer, timeoutMs);
      return new Store(opened.handle, { port: opened.port, isLocal: isLoopback(host) });
    }
  }
}

/** Options of joinGroup. */
export interface JoinOptions {
  readonly store: Store;
  readonly backend: Backend;
  readonly rank: number;
  readonly worldSize: number;
  /** Groups of one store have different names. Default "default". */
  readonly name?: string;
  /** The time that joining and each collective may wait for other ranks. Default DEFAULT_TIMEOUT_MS. */
  readonly timeoutMs?: number;
  /**
   * Gloo: the address or the network interface at which the others reach this process. Default: loopback where the
   * store is on loopback, else the address that this machine's name resolves to.
   */
  readonly listenAt?: { readonly host: string } | { readonly networkInterface: string };
  /** NCCL: the CUDA device of this rank. Two ranks cannot share one. Default "cuda:0". */
  readonly device?: Device;
}

/**
 * Waits until all ranks have joined, and connects them. Rejects with RENDEZVOUS_TIMEOUT, which names the ranks that did
 * not come, or with DUPLICATE_RANK.
 */
export async function joinGroup(options: JoinOptions): Promise<ProcessGroup> {
  const {
    store,
    backend,
    rank,
    worldSize,
    name = "default",
    timeoutMs = DEFAULT_TIMEOUT_MS,
    device = "cuda:0",
  } = options;
  const listenAt = options.listenAt ?? { host: store.isLocal ? "127.0.0.1" : "" };
  const handle = await native.joinGroup(
    store.handle,
    backend,
    name,
    rank,
    worldSize,
    timeoutMs,
    "host" in listenAt ? listenAt.host : "",
    "networkInterface" in listenAt ? listenAt.networkInterface : "",
    backend === "nccl" ? device : "",
  );
  return new ProcessGroup(handle, { name, backend, rank, worldSize });
}

/** The backends that the addon was built with. */
export function availableBackends(): string[] {
  return native.distributedBackends();
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host.startsWith("127.");
}
