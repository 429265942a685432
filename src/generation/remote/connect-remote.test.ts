import { afterAll, beforeAll, expect, test } from "vitest";
import { type RunningServer, startServer } from "../../../test/server/start-server.ts";
import { connectRemote, type RemoteEngine, type RemoteOptions } from "./connect-remote.ts";

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
