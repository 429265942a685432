/**
 * Rows of KTO: replies that are wanted or not. A pair counts as one of each.
 *
 * An example has a second sequence: its prompt with the reply of the next example that asks something else.
 */
import type { PlacedRow } from "../../data/data-row.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { joinIds } from "../../flow/join-arrays.ts";
import type { TuningExample, TuningSequence } from "../../flow/tuning-example.ts";
import type { ExampleReader, ReaderParts } from "./example-reader.ts";
import {
  isPair,
  type PromptReply,
  pairFields,
  readLabel,
  readPair,
  readReply,
  replyFields,
} from "./preference-rows.ts";
import { replySequence } from "./reply-sequence.ts";

export function labeledReader(): ExampleReader {
  return {
    fields: [...new Set([...replyFields, ...pairFields, "label"])],
    read: (placed, parts) =>
      Promise.all(
        readLabeled(placed, parts).map(async ({ isDesirable, ...reply }) => ({
          sequences: [await replySequence(placed, reply, parts.format)],
          numbers: { isDesirable: isDesirable ? 1 : 0 },
        })),
      ),
    complete: withMismatched,
  };
}

interface Labeled extends PromptReply {
  readonly isDesirable: boolean;
}

function readLabeled(placed: PlacedRow, { fields }: ReaderParts): readonly Labeled[] {
  if (!isPair(placed, fields))
    return [{ ...readReply(placed, fields), isDesirable: readLabel(placed, fields.label ?? "label") }];
  const { prompt, chosen, rejected, tools } = readPair(placed, fields);
  return [
    { prompt, reply: chosen, tools, isDesirable: true },
    { prompt, reply: rejected, tools, isDesirable: false },
  ];
}

function withMismatched(examples: readonly TuningExample[], contextLength: number): readonly TuningExample[] {
  const own = examples.map(({ sequences }) => sequences[0]!);
  const prompts = own.map(promptOf);
  const keys = prompts.map((ids) => Buffer.from(ids).toString("latin1"));
  if (new Set(keys).size < 2) {
    throw new RerollError(
      "DATA_INVALID",
      "kto needs rows with at least two different prompts: it estimates the distance to the reference from replies to other prompts. All rows have the same one.",
    );
  }
  return examples.map((example, place) => {
    let other = place;
    do other = (other + 1) % examples.length;
    while (keys[other] === keys[place]);
    return { ...example, sequences: [own[place]!, joined(prompts[place]!, own[other]!, contextLength)] };
  });
}

function promptOf({ tokenIds, lossMask }: TuningSequence): Int32Array {
  return tokenIds.slice(0, lossMask.indexOf(1));
}

/** A prompt with the reply of another one, cut to the context. Its first token is always among the reply. */
function joined(prompt: Int32Array, { tokenIds, lossMask }: TuningSequence, contextLength: number): TuningSequence {
  const start = lossMask.indexOf(1);
  const ids = joinIds([prompt, tokenIds.subarray(start)]);
  const mask = new Uint8Array(ids.length);
  mask.set(lossMask.subarray(start), prompt.length);
  const end = Math.max(contextLength, prompt.length + 1);
  return { tokenIds: ids.slice(0, end), lossMask: mask.slice(0, end) };
}
