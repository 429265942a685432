import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, expect, test } from "vitest";
import { HttpClient } from "./http-client.ts";
import { pickleSharedWeights } from "./vllm-pickles.ts";
import { vllmWeights } from "./vllm-weights.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** A server that notes what it is asked, and fails one route the first time as vLLM does: with a status, and no reason. */
async function listen(failing = "", answer = {}) {
  let hasFailed = false;
  const asked: { readonly path: string; readonly body: unknown }[] = [];
  const server = createServer(async (request, response) => {
    const path = request.url ?? "";
    const body = await text(request);
    asked.push({ path, body: body === "" ? null : JSON.parse(body) });
    const isFailing = path === failing && !hasFailed;
    hasFailed ||= isFailing;
    response.writeHead(isFailing ? 500 : 200).end(isFailing ? "Internal Server Error" : JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const http = new HttpClient({ url, timeoutMs: 5000, maxConnections: 1 });
  closing.push(
    () => http.close(),
    () => void server.close(),
  );
  return { http, url, asked };
}

const places = [
  { name: "a.weight", dtype: "bfloat16", shape: [2, 3], memory: { handle: [1, 2], offsetBytes: 512 } },
  { name: "b.bias", dtype: "float32", shape: [3], memory: { handle: [1, 2], offsetBytes: 1024 } },
] as const;

test("vLLM on the trainer's GPU is told names, types, shapes and places, between a stop and a start", async () => {
  const { http, asked } = await listen();
  await vllmWeights.check!(http, "same-gpu");
  await vllmWeights.update!.begin(http);
  await vllmWeights.sameGpu!.read(http, "ab-cd", places);
  await vllmWeights.update!.end(http, { run: "r", version: 3 });
  expect(asked).toEqual([
    { path: "/is_paused", body: null },
    { path: "/init_weight_transfer_engine", body: { init_info: {} } },
    { path: "/pause?mode=abort", body: null },
    { path: "/start_weight_update", body: null },
    {
      path: "/update_weights",
      body: {
        update_info: {
          names: ["a.weight", "b.bias"],
          dtype_names: ["bfloat16", "float32"],
          shapes: [[2, 3], [3]],
          ipc_handles_pickled: Buffer.from(pickleSharedWeights("ab-cd", places)).toString("base64"),
        },
      },
    },
    { path: "/finish_weight_update", body: { weight_version: "r/3" } },
    { path: "/resume", body: null },
  ]);
});

test("an update that a killed run has left open is ended before the next one begins", async () => {
  const { http, asked } = await listen("/start_weight_update");
  await vllmWeights.update!.begin(http);
  expect(asked.map(({ path }) => path)).toEqual([
    "/pause?mode=abort",
    "/start_weight_update",
    "/finish_weight_update",
    "/start_weight_update",
  ]);
});

test("a vLLM that could not load a folder draws nothing until it has loaded one", async () => {
  const { http, asked } = await listen("/collective_rpc");
  const load = () => vllmWeights.loadFolder!(http, { folder: "/v1", run: "r", version: 1, begins: true });
  await expect(load()).rejects.toThrow("/collective_rpc answered 500");
  expect(asked.map(({ path }) => path)).toEqual(["/pause?mode=abort", "/collective_rpc"]);
  await load();
  expect(asked.map(({ path }) => path).slice(2)).toEqual(["/pause?mode=abort", "/collective_rpc", "/resume"]);
});

test("a vLLM that a killed run has left stopped is told to go on before it is tried out, however it gets its weights", async () => {
  const { http, asked } = await listen("", { is_paused: true });
  for (const way of ["files", "adapters"] as const) await vllmWeights.check!(http, way);
  expect(asked.map(({ path }) => path)).toEqual(["/is_paused", "/resume", "/is_paused", "/resume"]);
});

test("a vLLM that cannot read memory is refused at the start, with what to start it with", async () => {
  const { http, url } = await listen("/init_weight_transfer_engine");
  await expect(vllmWeights.check!(http, "same-gpu")).rejects.toMatchObject({
    code: "REMOTE_INCAPABLE",
    message: `${url} cannot read weights from memory: ${url}/init_weight_transfer_engine answered 500: Internal Server Error. Start vLLM with --weight-transfer-config '{"backend":"ipc"}' and with VLLM_SERVER_DEV_MODE=1 VLLM_ALLOW_INSECURE_SERIALIZATION=1 in its environment, on the trainer's GPU.`,
  });
});

test("a vLLM that fails over the weights says no more than that; the error says where to look", async () => {
  const { http, url } = await listen("/update_weights");
  await expect(vllmWeights.sameGpu!.read(http, "ab-cd", places)).rejects.toMatchObject({
    code: "SYNC_FAILED",
    message: expect.stringContaining(
      `${url} could not read the weights from memory: ${url}/update_weights answered 500: Internal Server Error. Its log says why.`,
    ),
  });
});
