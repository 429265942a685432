/** Rank 0 reads a file and answers timers while eight collectives wait for rank 1, which comes only afterwards. */
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { tensor } from "../../../src/torch/create.ts";
import { joinTestGroup, leave, rank, report, signal, waitForSignal } from "./rank.ts";

const group = await joinTestGroup(20_000);
if (rank === 1) await waitForSignal("the file is read");
const values = Array.from({ length: 8 }, (_, i) => tensor([i]));
const reduced = Promise.all(values.map((value) => group.allReduce(value)));
if (rank === 0) {
  const text = await readFile(fileURLToPath(import.meta.url), "utf8");
  await sleep(1);
  report(text.length > 0);
  signal("the file is read");
}
await reduced;
report(values.map((value) => value.item()));
leave();
