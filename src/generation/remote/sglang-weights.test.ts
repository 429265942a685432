import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { HttpClient } from "./http-client.ts";
import { sglangWeights } from "./sglang-weights.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** A server that notes what it is asked, and has all routes or none. */
async function listen(status: 200 | 404) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    response.writeHead(status).end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const http = new HttpClient({ url, timeoutMs: 5000, maxConnections: 1 });
  closing.push(
    () => http.close(),
    () => void server.close(),
  );
  return { http, asked };
}

test("an SGLang that a killed run has left stopped is told to go on before it is tried out, however it gets its weights", async () => {
  const { http, asked } = await listen(200);
  for (const way of ["files", "broadcast", "adapters"] as const) await sglangWeights.check!(http, way);
  expect(asked).toEqual(Array(3).fill("/continue_generation"));
});

test("an SGLang that cannot be stopped is refused only where it has to be", async () => {
  const { http } = await listen(404);
  for (const way of ["files", "adapters"] as const) await sglangWeights.check!(http, way);
  await expect(sglangWeights.check!(http, "broadcast")).rejects.toThrow(
    "has no /continue_generation. Use a version of SGLang that has it.",
  );
});
