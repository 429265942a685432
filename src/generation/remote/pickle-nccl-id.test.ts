import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { pickleNcclId } from "./pickle-nccl-id.ts";

const hasPython = spawnSync("python3", ["--version"]).status === 0;

/** vLLM's class, as its `pynccl_wrapper` declares it, in a module of that name. */
const READER = `
import base64, ctypes, pickle, sys, types
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
  const text = Buffer.from(pickleNcclId(id)).toString("base64");
  const { stdout } = spawnSync("python3", ["-c", READER, text], { encoding: "utf8" });
  expect(stdout.trim()).toBe(`ncclUniqueId ${Buffer.from(id).toString("hex")}`);
});
