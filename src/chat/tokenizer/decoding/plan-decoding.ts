/**
 * From the `decoder` of a tokenizer.json to streaming stages.
 *
 * In: the decoder's settings. Out: a plan that decodes as the Rust `tokenizers` library does, token by token.
 * A step after one that joins all tokens (`Fuse`, `ByteLevel`) works on the whole text and so gets its own stage.
 */

import { z } from "zod";
import { RerollError } from "../../../errors/reroll-error.ts";
import { type PipelineStep, pipelineStep, readStep } from "../pipeline-step.ts";
import { byteFallbackStage } from "./byte-fallback-stage.ts";
import { byteLevelStage } from "./byte-level-stage.ts";
import type { DecodePlan, DecodeStageFactory } from "./decode-stage.ts";
import { mapStage } from "./map-stage.ts";
import { strip, stripStage } from "./strip-stage.ts";
import { suffixStage } from "./suffix-stage.ts";
import { wholeTextStage } from "./whole-text-stage.ts";
import { cleanUpSpaces, joinWordPiece } from "./word-piece.ts";

/** Plans the stages of a decoder. Without a decoder, tokens are joined with spaces. */
export function planDecoding(decoder: PipelineStep | null): DecodePlan {
  if (decoder === null) return [joinWithSpaces];
  const plan: DecodeStageFactory[] = [];
  let isJoined = false;
  for (const step of stepsOf(decoder)) {
    plan.push(isJoined ? joinedStage(step) : tokenStage(step));
    isJoined ||= step.type === "Fuse" || step.type === "ByteLevel";
  }
  return plan;
}

function stepsOf(decoder: PipelineStep): readonly PipelineStep[] {
  if (decoder.type !== "Sequence") return [decoder];
  return readStep(decoder, sequenceSettings).decoders.flatMap(stepsOf);
}

/** The stage of a step whose pieces are tokens. */
function tokenStage(step: PipelineStep): DecodeStageFactory {
  switch (step.type) {
    case "ByteLevel":
      return byteLevelStage;
    case "ByteFallback":
      return byteFallbackStage;
    case "Fuse":
      return passOn;
    case "Replace":
      return mapStage(replacer(step));
    case "Strip": {
      const settings = readStep(step, stripSettings);
      return mapStage((token) => strip(token, settings));
    }
    case "Metaspace": {
      const { replacement, prepend_scheme, add_prefix_space } = readStep(step, metaspaceSettings);
      const hasPrefix = prepend_scheme !== "never" && add_prefix_space !== false;
      return mapStage((token, index) => token.replaceAll(replacement, hasPrefix && index === 0 ? "" : " "));
    }
    case "WordPiece": {
      const { prefix, cleanup } = readStep(step, wordPieceSettings);
      return mapStage((token, index) => {
        const joined = joinWordPiece(token, index, prefix);
        return cleanup ? cleanUpSpaces(joined) : joined;
      });
    }
    case "BPEDecoder":
      return suffixStage(readStep(step, suffixSettings).suffix);
    default:
      throw new RerollError(
        "TOKENIZER_UNSUPPORTED",
        `tokenizer.json has a decoder of type "${step.type}". Decoders that work here: ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, WordPiece, BPEDecoder, Sequence.`,
        { step },
      );
  }
}

/** The stage of a step that sees the whole text. */
function joinedStage(step: PipelineStep): DecodeStageFactory {
  if (step.type === "Fuse") return passOn;
  if (step.type === "Strip") return stripStage(readStep(step, stripSettings));
  // One character cannot be cut in two, so replacing it piece by piece equals replacing it in the whole.
  if (step.type === "Replace" && replacesOneCharacter(step)) return mapStage(replacer(step));
  return wholeTextStage(tokenStage(step));
}

function replacesOneCharacter(step: PipelineStep): boolean {
  return readStep(step, replaceSettings).pattern.String.length === 1;
}

function replacer(step: PipelineStep): (piece: string) => string {
  const { pattern, content } = readStep(step, replaceSettings);
  return (piece) => piece.replaceAll(pattern.String, () => content);
}

const passOn = mapStage((piece) => piece);
const joinWithSpaces = mapStage((token, index) => (index === 0 ? token : ` ${token}`));

const sequenceSettings = z.object({ decoders: z.array(pipelineStep) });
const replaceSettings = z.object({ pattern: z.object({ String: z.string().min(1) }), content: z.string() });
const stripSettings = z.object({ content: z.string().min(1), start: z.int().min(0), stop: z.int().min(0) });
const suffixSettings = z.object({ suffix: z.string().min(1) });
const wordPieceSettings = z.object({ prefix: z.string().default("##"), cleanup: z.boolean().default(true) });
const metaspaceSettings = z.object({
  replacement: z.string().min(1),
  prepend_scheme: z.enum(["always", "first", "never"]).default("always"),
  add_prefix_space: z.boolean().optional(),
});
