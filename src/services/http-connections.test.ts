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
  const client = new ServiceClient({ url, timeoutMs: 10_000, signPath: "/" });
  const ask = async () => {
    for (let i = 0; i < 50; i++) await client.call("POST", "/v1/sessions", { i });
  };
  await Promise.all(Array.from({ length: 8 }, ask));
  expect(opened.length).toBe(8);
});

test("a call has ended when its connection is free, also where the answer comes before all of the question was sent", async () => {
  const { url, opened } = await serve((_, response) => response.end("{}"));
  const client = new ServiceClient({ url, timeoutMs: 10_000, signPath: "/" });
  const question = "so ".repeat(1_000_000);
  for (let i = 0; i < 5; i++) await client.call("POST", "/v1/sessions", { question });
  expect(opened.length).toBe(1);
});

test("a connection is closed when nobody has used it for a while, and not while its answer is waited for", async () => {
  const { url, opened } = await serve((_, response) => setTimeout(() => response.end("late"), 200));
  const connections = new HttpConnections({ url, idleMs: 50 });
  const answer = await connections.send({ method: "GET", path: "/", headers: {} });
  expect((await answer.setEncoding("utf8").toArray()).join("")).toBe("late");
  await once(opened[0]!, "close");
  expect(opened.length).toBe(1);
});

test("a request that waits for a connection ends with its signal, and is not sent after the connections were closed", async () => {
  const asked: (string | undefined)[] = [];
  const { url } = await serve(({ url: path }) => void asked.push(path));
  const connections = new HttpConnections({ url, maxConnections: 1 });
  const send = (path: string, signal?: AbortSignal) => connections.send({ method: "GET", path, headers: {}, signal });
  const first = send("/first");
  const aborting = new AbortController();
  const second = send("/second", aborting.signal);
  const third = send("/third");
  aborting.abort();
  await expect(second).rejects.toThrow("The operation was aborted");
  await expect.poll(() => asked).toEqual(["/first"]);
  connections.close();
  await expect(first).rejects.toThrow();
  await expect(third).rejects.toThrow("the connections were closed");
  // Whoever is let in later would be asked by now.
  const next = new HttpConnections({ url });
  void next.send({ method: "GET", path: "/next", headers: {} }).catch(() => {});
  await expect.poll(() => asked).toEqual(["/first", "/next"]);
  next.close();
});
