import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { HttpConnections } from "./http-connections.ts";
import { ServiceClient } from "./service-client.ts";

const closings: (() => void)[] = [];
afterEach(() => {
  for (const close of closings.splice(0)) close();
});

/** A server, and the connections to it in the order in which they were opened. */
async function serve(answer: RequestListener): Promise<{ readonly url: string; readonly opened: readonly Socket[] }> {
  const opened: Socket[] = [];
  const server = createServer(answer).on("connection", (socket: Socket) => opened.push(socket));
  await once(server.listen(0, "127.0.0.1"), "listening");
  closings.push(() => server.close().closeAllConnections());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, opened };
}

test("eight callers who ask again at once have eight connections to a service, however often they ask", async () => {
  const { url, opened } = await serve((_, response) => setImmediate(() => response.end("{}")));
  const client = new ServiceClient({ url, timeoutMs: 10_000 });
  const ask = async () => {
    for (let i = 0; i < 50; i++) await client.call("POST", "/v1/sessions", { i });
  };
  await Promise.all(Array.from({ length: 8 }, ask));
  expect(opened.length).toBe(8);
});

test("a connection is closed when nobody has used it for a while, and not while its answer is waited for", async () => {
  const { url, opened } = await serve((_, response) => setTimeout(() => response.end("late"), 200));
  const connections = new HttpConnections({ url, idleMs: 50 });
  const answer = await connections.send({ method: "GET", path: "/", headers: {} });
  expect((await answer.setEncoding("utf8").toArray()).join("")).toBe("late");
  await once(opened[0]!, "close");
  expect(opened.length).toBe(1);
});
