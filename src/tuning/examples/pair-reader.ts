/** Rows of preference objectives: pairs, as the two token sequences that are compared. */
import type { PlacedRow } from "../../data/data-row.ts";
import { rowError } from "../../data/to-prompt.ts";
import type { TuningExample } from "../../flow/tuning-example.ts";
import type { ExampleReader, ReaderParts } from "./example-reader.ts";
import { pairFields, readPair } from "./preference-rows.ts";
import { replySequence } from "./reply-sequence.ts";

export function pairReader(): ExampleReader {
  return { fields: pairFields, read: async (placed, parts) => [await readExample(placed, parts)] };
}

async function readExample(placed: PlacedRow, { format, fields }: ReaderParts): Promise<TuningExample> {
  const { prompt, chosen, rejected, tools } = readPair(placed, fields);
  const sequences = await Promise.all(
    [chosen, rejected].map((reply) => replySequence(placed, { prompt, reply, tools }, format)),
  );
  const [better, worse] = sequences as [(typeof sequences)[0], (typeof sequences)[0]];
  if (Buffer.from(better.tokenIds.buffer).equals(Buffer.from(worse.tokenIds.buffer))) {
    throw rowError(placed, "has replies in chosen and rejected that are the same tokens");
  }
  return { sequences };
}
