import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { Lifeline } from "./lifeline.ts";

test("a server that takes the connection and does not answer with TLS is not waited for without a limit", async () => {
  const taken: Socket[] = [];
  const server = createServer((socket) => void taken.push(socket.on("error", () => {})));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const lifeline = await Lifeline.open(`http://127.0.0.1:${port}`, 50);
  await expect(Lifeline.open(`https://127.0.0.1:${port}`, 200)).rejects.toThrow(
    `https://127.0.0.1:${port} cannot be reached: no answer for 0.2 seconds`,
  );
  // The limit is for connecting: one that was reached stays open, however long nothing is said on it.
  expect(lifeline.isCut).toBe(false);
  for (const socket of taken) socket.destroy();
  await expect.poll(() => lifeline.isCut).toBe(true);
  server.close();
});
