/** Servers of this project in this process, each behind a line that a test can cut, as when a machine is lost. */
import { randomUUID } from "node:crypto";
import { type AddressInfo, connect, createServer as createLine, type Socket } from "node:net";
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import { startThreadedEngine } from "../../src/generation/local/threaded-engine.ts";
import { createServer } from "../../src/generation/server/create-server.ts";

export interface ServedModel {
  readonly url: string;
  /** Replies that it has been asked for. */
  numRequests(): number;
  /** Breaks every connection, and takes no new ones, when some reply has sent three more events. */
  cutDuringReply(): void;
  /** Breaks the connections on which weights are given to it, of those times from now on: 1 is the next. `onBreak` is told each time. */
  breakWeights(times: readonly number[], onBreak?: (time: number) => void): void;
  readonly isCut: () => boolean;
  close(): Promise<void>;
}

/** @param root the folder that weights may lie in */
export async function serveModel(folder: string, root: string, contextLength: number): Promise<ServedModel> {
  const options = { contextLength, isSteady: true };
  const engine = await startThreadedEngine({ folder, tokenizerFolder: folder, numThreads: 1, options });
  const server = createServer(
    {
      ...{ engine, tokenizer: await loadTokenizer(folder), modelName: "tiny", clock: Date.now, newId: randomUUID },
      onError: () => {},
      weights: { root, load: (place, version) => engine.loadWeights(version, place) },
    },
    { apiKey: "secret" },
  );
  const port = Number(new URL(await server.listen()).port);
  const sockets = new Set<Socket>();
  let numEvents = Number.NEGATIVE_INFINITY;
  let [numGiven, broken] = [0, [] as readonly number[]];
  let onBreak: (time: number) => void = () => {};
  const line = createLine((client) => {
    const far = connect(port, "127.0.0.1");
    client.on("data", (chunk) => {
      if (!chunk.includes("POST /v1/weights") || !broken.includes(++numGiven)) return;
      client.destroy();
      onBreak(numGiven);
    });
    far.on("data", (chunk) => {
      numEvents += chunk.toString("latin1").split("data: {").length - 1;
      if (numEvents >= 3) setImmediate(cut);
    });
    for (const [one, other] of [
      [client, far],
      [far, client],
    ] as const) {
      sockets.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => sockets.delete(one));
    }
  });
  await new Promise<void>((resolve) => line.listen(0, "127.0.0.1", resolve));
  const cut = () => {
    line.close();
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${(line.address() as AddressInfo).port}`,
    numRequests: () => engine.status().counters.requests,
    cutDuringReply: () => {
      numEvents = 0;
    },
    breakWeights: (times, told = () => {}) => {
      [numGiven, broken] = [0, times];
      onBreak = told;
    },
    isCut: () => !line.listening,
    close: async () => {
      cut();
      await server.close();
      await engine.close();
    },
  };
}
