/** A run that is asked to stop while it waits for somebody before its first step. */
import { readFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { inFolder, trainLake } from "./lake-run.ts";

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
