import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RunningServer, startServer } from "../../../test/server/start-server.ts";
import { connectRemote, type RemoteEngine, type RemoteOptions } from "./connect-remote.ts";
import { RemoteWeights } from "./remote-weights.ts";

let running: RunningServer;
let remote: RemoteEngine;
beforeAll(async () => {
  running = await startServer();
  remote = await connectRemote({ kind: "reroll", url: `${running.url}/v1/` });
});
afterAll(async () => {
  remote.close();
  await running.close();
});

test("an address that ends in /v1, as clients of OpenAI want it, is taken too", async () => {
  const { tokenIds, versions } = await remote.generate({ promptIds: [1, 2], sampling: { maxTokens: 3 } });
  expect([tokenIds.length, [...versions]]).toEqual([3, [1, 1, 1]]);
});

test("what cannot be sent is refused by name", async () => {
  const ask = (bias: number) =>
    remote.generate({ promptIds: [1], sampling: { maxTokens: 1, logitBias: new Map([[7, bias]]) } });
  for (const bias of [Number.NEGATIVE_INFINITY, -101, 1e9]) {
    await expect(ask(bias)).rejects.toMatchObject({
      code: "INVALID_REQUEST",
      message: `logitBias has 7: ${bias}. Remote servers take -100 to 100; -100 is as good as never.`,
    });
  }
  expect((await ask(-100)).tokenIds).toHaveLength(1);
});

test("an unknown kind and an address that is none are refused at once", async () => {
  const kind = JSON.parse('"ollama"') as RemoteOptions["kind"];
  await expect(connectRemote({ kind, url: running.url })).rejects.toThrow(
    'connectRemote has no kind "ollama". Kinds: reroll, vllm, sglang, llama-cpp.',
  );
  for (const url of ["127.0.0.1:8000", "ftp://host", "", "http//x"]) {
    await expect(connectRemote({ kind: "reroll", url })).rejects.toThrow(`url must be like http://127.0.0.1:8000: got`);
  }
});

/** The address of a server that answers as given, for as long as `use` takes. */
async function serving(answer: RequestListener, use: (url: string) => Promise<void>): Promise<void> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

test("a server that is still starting is waited for, and what is waited for is said once", async () => {
  const said: string[] = [];
  const models = { data: [{ id: "one", max_model_len: 64 }] };
  const answer: RequestListener = ({ url }, response) => {
    // Ready as soon as somebody was told of the wait; then it turns out to be of little use.
    if (said.length === 0) response.writeHead(503).end();
    else if (url === "/v1/models") response.end(JSON.stringify(models));
    else response.writeHead(400).end("no tokens here");
  };
  await serving(answer, async (url) => {
    const patience = { startMs: 60_000, retryDelayMs: 10, maxRetryDelayMs: 10 };
    const report = (text: string) => void said.push(text);
    await expect(connectRemote({ kind: "vllm", url, ...patience, report })).rejects.toThrow("no tokens here");
    expect(said).toEqual([expect.stringMatching(`^Waiting for vLLM at ${url} for up to 60 seconds. ${url}.* 503`)]);
  });
});

test("a server that takes connections and says nothing is given up when its time is over", async () => {
  await serving(
    () => {},
    async (url) => {
      await expect(connectRemote({ kind: "vllm", url, startMs: 200 })).rejects.toMatchObject({
        code: "REMOTE_UNAVAILABLE",
        message: expect.stringContaining(`The last one: ${url} cannot be reached: no answer for 200 ms.`),
      });
    },
  );
});

/** A vLLM that answers what it is asked but for one path, of which it says nothing. */
const silentAbout =
  (silent: string): RequestListener =>
  ({ url }, response) => {
    if (url === "/v1/models") response.end(JSON.stringify({ data: [{ id: "one", max_model_len: 64 }] }));
    else if (url !== silent) response.end("{}");
  };

test.each([
  ["/is_paused", "say whether it can be given weights"],
  ["/v1/completions", "draw a token"],
])("a server that says nothing at its trial is given up when its time is over: %s", async (path, question) => {
  await serving(silentAbout(path), async (url) => {
    const weights = new RemoteWeights({ kind: "vllm", url, run: "run" });
    const said: string[] = [];
    const report = (text: string) => void said.push(text);
    const trial = connectRemote({ kind: "vllm", url, startMs: 1500, report, weights, prepare: () => weights.check() });
    await expect(trial).rejects.toMatchObject({
      code: "REMOTE_UNAVAILABLE",
      message: `vLLM at ${url} was asked to ${question} and has not answered: all that it is asked at the start may take 1.5 s. Look at its log, and start it again.`,
    });
    expect(said).toEqual([`Waiting for vLLM at ${url} to ${question}.`]);
    weights.close();
  });
});
