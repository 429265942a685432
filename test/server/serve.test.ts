import { expect, test } from "vitest";
import { serve } from "../../src/cli/serve.ts";
import { createScriptedEngine } from "../../src/testing/scripted-generate.ts";
import { fixtureTokenizer } from "./start-server.ts";

test("serve answers until it is told to stop, and then closes the engine", async () => {
  const engine = createScriptedEngine();
  const controller = new AbortController();
  const lines: string[] = [];
  const running = await serve({
    ...{ engine, tokenizer: fixtureTokenizer, modelName: "tiny", apiKey: "k", signal: controller.signal },
    print: (line) => lines.push(line),
  });
  expect(lines[0]).toBe(`tiny is served at ${running.url}/v1 (with an API key)`);
  const models = await fetch(`${running.url}/v1/models`, { headers: { authorization: "Bearer k" } });
  expect(await models.json()).toMatchObject({ data: [{ id: "tiny", max_model_len: 4096, version: 1 }] });
  const pending = fetch(`${running.url}/v1/completions`, {
    method: "POST",
    headers: { authorization: "Bearer k", "content-type": "application/json" },
    body: JSON.stringify({ prompt: "a", max_tokens: 4000, ignore_eos: true }),
  }).catch((cause: unknown) => cause);
  await expect.poll(() => engine.status().runningRequests, { interval: 1 }).toBe(1);
  controller.abort();
  await running.closed;
  await pending;
  await expect(fetch(`${running.url}/health`)).rejects.toThrow();
  await expect(engine.generate({ promptIds: [1], sampling: { maxTokens: 1 } })).rejects.toMatchObject({
    code: "ENGINE_CLOSED",
  });
});
