/** A run that is asked to stop while it waits for somebody: before its first step, or for whom its weights are. */
import { cpSync, mkdirSync, readFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { inFolder, trainLake } from "./lake-run.ts";
import { serveModel } from "./served-model.ts";

test.each([
  ["environments", (url: string) => ({ envs: { lake: { type: "remote", url } } }) as const],
  ["samples", (url: string) => ({ engine: { remote: { url, kind: "vllm" } } }) as const],
])("a run whose server of %s does not answer ends at once when it is stopped", (_, changesFor) =>
  inFolder(async (root) => {
    const stop = new AbortController();
    const taken: Socket[] = [];
    const server = createServer((socket) => {
      taken.push(socket);
      stop.abort();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    try {
      const stopped = trainLake(root, changesFor(`http://127.0.0.1:${port}`), undefined, stop.signal);
      await expect(stopped).rejects.toThrow("The run was stopped before its first step.");
      expect(JSON.parse(readFileSync(join(root, "lake/run.json"), "utf8"))).toMatchObject({ status: "interrupted" });
    } finally {
      server.close();
      for (const socket of taken) socket.destroy();
    }
  }),
);

/** Weights are given to servers a first time, or not even that, and never again. The run is asked to stop at a later attempt, of which it makes no more than a few. */
test.each([
  ["two servers, after a step, whose checkpoint it leaves", 2, 2, 5],
  ["two servers, before its first step", 2, 1, 4],
  ["one server, which is tried for longer, after a step", 1, 2, 3],
])("a run whose weights nobody takes ends at once when it is stopped: %s", (_, numServers, firstBroken, stopAt) =>
  inFolder(async (root) => {
    const model = join(root, "model");
    mkdirSync(model);
    for (const file of ["config.json", "model.safetensors"])
      cpSync(`fixtures/hf-tiny/qwen3/${file}`, join(model, file));
    for (const file of ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"])
      cpSync(`fixtures/tokenizer/${file}`, join(model, file));
    const servers = await Promise.all(Array.from({ length: numServers }, () => serveModel(model, tmpdir(), 64)));
    const stop = new AbortController();
    const times = Array.from({ length: 1000 }, (_, i) => i + 1).filter((time) => time >= firstBroken);
    let numAfter = 0;
    for (const server of servers)
      server.breakWeights(times, (time) => {
        if (stop.signal.aborted) numAfter++;
        if (time === stopAt) stop.abort();
      });
    try {
      const engine = { remote: { kind: "reroll", url: servers.map(({ url }) => url), apiKey: "secret" } } as const;
      const running = trainLake(root, { model: { path: model }, engine }, undefined, stop.signal);
      if (firstBroken === 1)
        await expect(running).rejects.toThrow(
          "The run was stopped before its first step. It had no checkpoint yet, so there is nothing to resume.",
        );
      else expect((await running).state(1)).toMatchObject({ step: 1, version: 1 });
      expect(stop.signal.aborted).toBe(true);
      expect(numAfter).toBeLessThanOrEqual(4);
      expect(JSON.parse(readFileSync(join(root, "lake/run.json"), "utf8"))).toMatchObject({ status: "interrupted" });
    } finally {
      await Promise.all(servers.map((server) => server.close()));
    }
  }),
);
