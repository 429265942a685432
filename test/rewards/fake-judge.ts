/** A chat server that answers as a test tells it to, and remembers what it was asked. */
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

/** What the server does with one request. */
export type FakeAnswer =
  | { readonly say: string; readonly tokens?: number; readonly afterMs?: number }
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: string }
  /** A body as it is, such as broken JSON. */
  | { readonly raw: string }
  /** Half of a body, and then the connection is gone. */
  | { readonly cutOff: string }
  | "hang";

export interface FakeRequest {
  readonly body: {
    readonly model: string;
    readonly messages: readonly { readonly role: string; readonly content: string }[];
  };
  readonly headers: IncomingHttpHeaders;
}

export interface FakeJudge {
  readonly baseUrl: string;
  readonly requests: readonly FakeRequest[];
  /** The most requests that were open at one time. */
  readonly mostAtOnce: number;
  close(): Promise<void>;
}

/** `answer` is asked for every request; `index` counts from 0. */
export async function startFakeJudge(answer: (request: FakeRequest, index: number) => FakeAnswer): Promise<FakeJudge> {
  const requests: FakeRequest[] = [];
  let [open, mostAtOnce] = [0, 0];
  const server = createServer((incoming, response) => {
    mostAtOnce = Math.max(mostAtOnce, ++open);
    response.on("close", () => open--);
    let text = "";
    incoming.on("data", (chunk) => {
      text += String(chunk);
    });
    incoming.on("end", () => {
      const request = { body: JSON.parse(text) as FakeRequest["body"], headers: incoming.headers };
      const chosen = answer(request, requests.push(request) - 1);
      if (chosen === "hang") return;
      if ("say" in chosen) {
        const reply = {
          choices: [{ message: { role: "assistant", content: chosen.say } }],
          ...(chosen.tokens === undefined ? {} : { usage: { total_tokens: chosen.tokens } }),
        };
        setTimeout(() => response.end(JSON.stringify(reply)), chosen.afterMs ?? 0);
      } else if ("status" in chosen) response.writeHead(chosen.status, chosen.headers).end(chosen.body ?? "");
      else if ("raw" in chosen) response.end(chosen.raw);
      else {
        response.writeHead(200, { "content-length": "1000" });
        response.write(chosen.cutOff, () => response.destroy());
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    get mostAtOnce() {
      return mostAtOnce;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
