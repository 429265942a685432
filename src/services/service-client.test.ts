import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { ServiceClient } from "./service-client.ts";

const closings: (() => void)[] = [];
afterEach(() => {
  for (const close of closings.splice(0)) close();
});

async function clientOf(answer: RequestListener, signMs: number): Promise<ServiceClient> {
  const server = createServer(answer);
  await once(server.listen(0, "127.0.0.1"), "listening");
  closings.push(() => server.close().closeAllConnections());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return new ServiceClient({ url, timeoutMs: 300_000, signPath: "/v1/environments", signMs });
}

test("a service that takes a call and is silent is lost long before an attempt may end, and counts as lost until it answers", async () => {
  let isHung = true;
  const asked: string[] = [];
  const client = await clientOf(({ url }, response) => {
    asked.push(url!);
    if (!isHung) response.end("{}");
  }, 50);
  await expect(client.call("POST", "/v1/scores")).rejects.toMatchObject({
    code: "SERVICE_LOST",
    message: expect.stringContaining("gave no sign of life within 50 ms."),
    details: { isSilent: true },
  });
  expect(asked).toEqual(["/v1/scores", "/v1/environments"]);
  expect(client.lostAs).toBeGreaterThan(0);
  isHung = false;
  await client.call("POST", "/v1/scores");
  expect(client.lostAs).toBe(0);
});

test("a service that is slow and gives signs of life is waited for, and not asked the same twice", async () => {
  let [numAsked, numSigns] = [0, 0];
  let answer = () => {};
  const client = await clientOf(({ url }, response) => {
    if (url === "/v1/environments") {
      response.end("{}");
      if (++numSigns === 2) answer();
    } else {
      numAsked++;
      answer = () => void response.end('{"value":1}');
    }
  }, 500);
  expect(await client.call("POST", "/v1/scores")).toEqual({ value: 1 });
  expect([numAsked, numSigns]).toEqual([1, 2]);
});

test("a server that refuses the key is named", async () => {
  const client = await clientOf((_, response) => {
    response.writeHead(401).end(JSON.stringify({ error: { code: "KEY_INVALID", message: "The API key is wrong." } }));
  }, 500);
  await expect(client.call("POST", "/v1/scores")).rejects.toThrow(
    /^http:\/\/127\.0\.0\.1:\d+ refused the run: The API key is wrong\.$/,
  );
});

test("a caller that gives up is told its own reason, and not that the service is lost", async () => {
  const client = await clientOf(() => {}, 60_000);
  const giving = new AbortController();
  const call = client.call("POST", "/v1/scores", {}, giving.signal);
  giving.abort(new Error("the episode has taken too long"));
  await expect(call).rejects.toThrow("the episode has taken too long");
  expect(client.lostAs).toBe(0);
});

test("what would fail the same way again is not asked again: an answer or a question that is not JSON, and a key that cannot be sent", async () => {
  let numAsked = 0;
  const client = await clientOf((_, response) => {
    numAsked++;
    response.end("<html>Welcome</html>");
  }, 60_000);
  await expect(client.call("POST", "/v1/scores", {})).rejects.toMatchObject({
    code: "SERVICE_REFUSED",
    message: expect.stringContaining('answered with something that is not JSON: "<html>Welcome</html>". Set url to'),
  });
  expect(numAsked).toBe(1);
  await expect(client.call("POST", "/v1/scores", { truth: 1n })).rejects.toMatchObject({
    code: "INVALID_REQUEST",
    message: expect.stringContaining("cannot be written as JSON: Do not know how to serialize a BigInt. It must be"),
  });
  expect(numAsked).toBe(1);
  const options = { url: "http://10.0.0.5:8700", timeoutMs: 1, signPath: "/" };
  expect(() => new ServiceClient({ ...options, apiKey: "hidden\nkey" })).toThrow(
    /^The API key for http:\/\/10\.0\.0\.5:8700 cannot be sent: it holds a line break, or another character that no header can\./,
  );
});
