/**
 * An id of NCCL as vLLM's ranks read it from the store: a Python pickle of `ncclUniqueId`, a ctypes structure of
 * `vllm.distributed.device_communicators.pynccl_wrapper`. Tried with vLLM 0.26 and 0.32.
 */
import { invariant } from "../../errors/reroll-error.ts";

/** Bytes of an `ncclUniqueId`. */
const ID_BYTES = 128;

/** The key under which they look for what rank 0 broadcasts first: `StatelessProcessGroup.broadcast_obj`. */
export const NCCL_ID_KEY = "broadcast_from/0/0";

/** Opcodes of protocol 3, as in CPython's `pickletools`: what ctypes makes of a structure is `_unpickle(class, (attributes, bytes))`. */
export function pickleNcclId(id: Uint8Array): Uint8Array {
  invariant(id.length === ID_BYTES, `an id of NCCL has ${id.length} bytes`);
  const global = (module: string, name: string) => Buffer.from(`c${module}\n${name}\n`, "latin1");
  return Buffer.concat([
    Buffer.of(0x80, 3),
    global("_ctypes", "_unpickle"),
    global("vllm.distributed.device_communicators.pynccl_wrapper", "ncclUniqueId"),
    // An empty dictionary, then bytes with their length before them.
    Buffer.from("}C", "latin1"),
    Buffer.of(ID_BYTES),
    id,
    // Two tuples of two, the call, and the end.
    Buffer.of(0x86, 0x86),
    Buffer.from("R.", "latin1"),
  ]);
}
