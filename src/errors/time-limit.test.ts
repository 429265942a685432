import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { withTimeLimit } from "./time-limit.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const never = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));

test("a limit fires though garbage is collected while the call waits", async () => {
  const call = withTimeLimit(50, new AbortController().signal, never);
  const collecting = setInterval(collectGarbage, 10);
  await expect(call).rejects.toMatchObject({ name: "TimeoutError" });
  clearInterval(collecting);
});

test("a call ends with the reason of the signal that it follows", async () => {
  const outer = new AbortController();
  const call = withTimeLimit(60_000, outer.signal, never);
  outer.abort(new Error("the run is over"));
  await expect(call).rejects.toThrow("the run is over");
  await expect(withTimeLimit(60_000, outer.signal, async (signal) => signal.throwIfAborted())).rejects.toThrow(
    "the run is over",
  );
});
