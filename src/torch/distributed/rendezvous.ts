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
export type StoreOptions = TcpStoreOptions | FileStoreOptions | LocalStoreOptions;

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

/** The memory of this process: what libtorch leaves in it can be read here, and passed on to ranks that meet elsewhere. */
interface LocalStoreOptions {
  readonly type: "local";
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

  /** Leaves bytes under a key, for whoever reads them. */
  async set(key: string, bytes: Uint8Array): Promise<void> {
    await native.storeSet(this.handle, key, bytes);
  }

  /** Waits for the bytes under a key. Rejects with RENDEZVOUS_TIMEOUT. */
  async get(key: string, timeoutMs = DEFAULT_TIMEOUT_MS): Promise<Uint8Array> {
    return Uint8Array.from(await native.storeGet(this.handle, key, timeoutMs));
  }
}

/** Serves or reaches a store. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { type }: { readonly type: string } = options;
  if (type !== "file" && type !== "tcp" && type !== "local") {
    throw new RerollError("INVALID_ARGUMENT", `openStore has the types "tcp", "file" and "local": got "${type}".`);
  }
  switch (options.type) {
    case "file":
      return new Store(native.openFileStore(options.path, options.worldSize), { port: null, isLocal: false });
    case "local":
      return new Store(native.openLocalStore(), { port: null, isLocal: true });
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
  /** Set where the other ranks are not reroll's. */
  readonly foreign?: ForeignRanks;
}

/**
 * Ranks of another program. A group with them does what c10d does and no more: ranks do not compare their calls, and one that does not come is
 * not named.
 */
interface ForeignRanks {
  /** The prefix of the group's keys in the store, as the program that makes the group there has it. */
  readonly prefix: string;
  /** NCCL: whether they connect with their first collective, as c10d does, and not when they join. Default false. */
  readonly isLazy?: boolean;
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
    foreign = { prefix: "" },
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
    backend === "nccl" ? indexed(device) : "",
    foreign.prefix,
    foreign.isLazy ?? false,
  );
  return new ProcessGroup(handle, { name, backend, rank, worldSize });
}

/**
 * The prefix of the keys of a group that a Python program makes by `_new_process_group_helper` of torch.distributed, in a store under the
 * same name, as SGLang and others do. Its torch must be of the version of this libtorch, or near it: c10d promises nothing between versions.
 */
export function pythonGroupPrefix(name: string, backend: Backend): string {
  const device = backend === "gloo" ? "cpu" : "cuda";
  // Groups with a backend per device came with 2.0.
  return native.torchVersion.startsWith("1.") ? `${name}/${name}` : `${name}/${name}//${device}/`;
}

/** The backends that the addon was built with. */
export function availableBackends(): string[] {
  return native.distributedBackends();
}

/** NCCL wants the number of a device; "cuda" alone is the first. */
function indexed(device: Device): string {
  return device === "cuda" ? "cuda:0" : device;
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host.startsWith("127.");
}
