import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { type PythonValue, pickle } from "./python-pickle.ts";
import { pickleNcclId, pickleSharedWeights } from "./vllm-pickles.ts";

const hasPython = spawnSync("python3", ["--version"]).status === 0;

/** What Python prints after a script that reads the pickle. */
function printedBy(script: string, pickled: Uint8Array): string {
  const text = Buffer.from(pickled).toString("base64");
  const read = "import base64, ctypes, pickle, sys, types\n";
  return spawnSync("python3", ["-c", read + script, text], { encoding: "utf8" }).stdout.trim();
}

test.skipIf(!hasPython)("Python reads back every kind of value that is pickled", () => {
  const kinds: PythonValue = [
    ...["ä€", "", 0, -1, 255, 2 ** 40, true, false, Uint8Array.of(0, 10, 255)],
    { tuple: [] },
    { tuple: [1, [2]] },
    { dict: [["a", { tuple: [3] }]] },
    { dict: [] },
    [],
    { module: "math", name: "pi" },
    { call: { module: "builtins", name: "divmod" }, args: [7, 2] },
  ];
  expect(printedBy("print(ascii(pickle.loads(base64.b64decode(sys.argv[1]))))", pickle(kinds))).toBe(
    String.raw`['\xe4\u20ac', '', 0, -1, 255, 1099511627776, True, False, b'\x00\n\xff', (), (1, [2]), {'a': (3,)}, {}, [], 3.141592653589793, (3, 1)]`,
  );
});

/** vLLM's class, as its `pynccl_wrapper` declares it, in a module of that name. */
const READ_ID = `
class ncclUniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]
name = "vllm.distributed.device_communicators.pynccl_wrapper"
for i in range(1, 5):
    part = ".".join(name.split(".")[:i])
    sys.modules[part] = types.ModuleType(part)
sys.modules[name].ncclUniqueId = ncclUniqueId
read = pickle.loads(base64.b64decode(sys.argv[1]))
print(type(read).__name__, bytes(read).hex())
`;

test.skipIf(!hasPython)("Python reads an id of NCCL from the bytes that vLLM's ranks are left", () => {
  const id = Uint8Array.from({ length: 128 }, (_, i) => (i * 7 + 3) % 256);
  expect(printedBy(READ_ID, pickleNcclId(id))).toBe(`ncclUniqueId ${Buffer.from(id).toString("hex")}`);
});

/** The parameters of `rebuild_cuda_tensor` in torch.multiprocessing.reductions, by which vLLM opens memory. */
const READ_SHARED = `
torch = types.ModuleType("torch")
torch.Tensor, torch.UntypedStorage, torch.bfloat16 = "Tensor", "UntypedStorage", "bfloat16"
sys.modules["torch"] = torch
def rebuild_cuda_tensor(tensor_cls, tensor_size, tensor_stride, tensor_offset, storage_cls, dtype, storage_device, storage_handle,
    storage_size_bytes, storage_offset_bytes, requires_grad, ref_counter_handle, ref_counter_offset, event_handle, event_sync_required):
    assert (tensor_cls, storage_cls, tensor_offset, requires_grad) == ("Tensor", "UntypedStorage", 0, False)
    assert type(ref_counter_handle) == type(event_handle) == bytes and type(ref_counter_offset) == type(storage_device) == int
    assert event_sync_required is False and len(storage_handle) == 64
    return dtype, tensor_size, tensor_stride, storage_handle[63], storage_size_bytes, storage_offset_bytes
for one in pickle.loads(base64.b64decode(sys.argv[1])):
    print(*[(uuid, *rebuild_cuda_tensor(*args)) for uuid, args in one.items()])
`;

test.skipIf(!hasPython)("Python reads where weights lie on a GPU from what vLLM is sent", () => {
  const handle = Array.from({ length: 64 }, (_, i) => i * 3);
  const pickled = pickleSharedWeights("ab-cd", [
    { dtype: "bfloat16", shape: [3, 5], memory: { handle, offsetBytes: 5 * 2 ** 33 } },
    { dtype: "bfloat16", shape: [], memory: { handle, offsetBytes: 0 } },
  ]);
  expect(printedBy(READ_SHARED, pickled).split("\n")).toEqual([
    "('ab-cd', 'bfloat16', (3, 5), (5, 1), 189, 30, 42949672960)",
    "('ab-cd', 'bfloat16', (), (), 189, 2, 0)",
  ]);
});
