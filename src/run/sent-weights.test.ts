import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { RerollError } from "../errors/reroll-error.ts";
import { Seat } from "../generation/pool/seat.ts";
import { HttpClient } from "../generation/remote/http-client.ts";
import type { WeightRoutes } from "../generation/remote/weight-routes.ts";
import { createScriptedEngine } from "../testing/scripted-generate.ts";
import type { Trainer } from "../training/trainer.ts";
import { handToServers, type SendingLine, SentWeights, sendingSync, type Transport } from "./sent-weights.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** Servers that answer what they are asked, and a transport that notes which version it was told to send to which of them, by number. */
async function openLines(count: number, routes: WeightRoutes = { tellsRun: true }) {
  const server = createServer((_, response) => void response.end("{}"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const openLine = async (): Promise<SendingLine> => {
    const open = async () => Object.assign(createScriptedEngine(), { close: async () => {} });
    const seat = await Seat.open({ name: "a server", open, bringsWeights: false, isElsewhere: true });
    const http = new HttpClient({ url, timeoutMs: 1000, maxConnections: 1 });
    closing.push(() => http.close());
    return { http, routes, seat, weights: new SentWeights("run", url) };
  };
  const lines = await Promise.all(Array.from({ length: count }, openLine));
  closing.push(() => server.close());
  const sent: [version: number, to: readonly number[]][] = [];
  const failures: RerollError[] = [];
  const transport: Transport = {
    send: async (_, version, members) => {
      sent.push([version, members.map((line) => lines.indexOf(line))]);
      const failure = failures.shift();
      if (failure !== undefined) throw failure;
      await Promise.all(members.map(({ seat }) => seat.give(async () => {})));
      return 4;
    },
    reset: () => {},
    close: async () => {},
  };
  const sync = sendingSync(transport, lines, {} as Trainer, () => 0);
  return { sync, lines, seats: lines.map(({ seat }) => seat), sent, failures };
}

const lose = (seat: Seat) => seat.ask(() => Promise.reject(new RerollError("REMOTE_UNAVAILABLE", "it is gone.")));
const whenBack = (seat: Seat) => expect.poll(() => seat.engine).not.toBeNull();

test("a server that is back is sent the version that was published last, and those that serve are left alone", async () => {
  const { sync, seats, sent } = await openLines(2);
  await sync.publish(3);
  await lose(seats[1]!);
  await whenBack(seats[1]!);
  await sync.catchUp(3);
  expect(seats.map(({ isServing }) => isServing)).toEqual([true, true]);
  await sync.publish(4);
  expect(sent).toEqual([
    [3, [0, 1]],
    [3, [1]],
    [4, [0, 1]],
  ]);
});

test("a server that is back and does not take the weights is lost once more, though it answers, and is sent them when it is opened again", async () => {
  const { sync, seats, sent, failures } = await openLines(1);
  const [seat] = seats;
  await sync.publish(3);
  seat!.onOutage = () => void sync.catchUp(3);
  failures.push(new RerollError("SYNC_FAILED", "it does not join."));
  await lose(seat!);
  await expect.poll(() => seat!.isServing, { timeout: 5000 }).toBe(true);
  expect(sent).toEqual([
    [3, [0]],
    [3, [0]],
    [3, [0]],
  ]);
});

test("requests to a server whose replies do not say their version wait from before it stops until it goes on", async () => {
  const order: string[] = [];
  const note = (what: string) => async () => void order.push(what);
  const update = { begin: note("stop"), end: note("go on") };
  const { lines } = await openLines(1, { tellsRun: false, update });
  const { weights } = lines[0]!;
  closing.push(() => weights.close());
  let asked: Promise<void> | undefined;
  await handToServers(lines, 5, async () => {
    asked = weights.gate
      .whenOpen(undefined)
      .then(() => void order.push(`asked of version ${weights.announced?.version}`));
  });
  await asked;
  expect(order).toEqual(["stop", "go on", "asked of version 5"]);
});
