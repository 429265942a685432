/**
 * Decoding of byte tokens such as `<0xE4>`, which sentencepiece vocabularies use for characters they do not have.
 *
 * A run of byte tokens is text only when the whole run is valid UTF-8; otherwise every byte of it becomes U+FFFD. So the
 * text of a run is certain when the run ends, and not earlier. This is the rule of the Rust `tokenizers` library.
 */

import type { DecodeStage, Emit } from "./decode-stage.ts";

const BYTE_TOKEN = /^<0x([0-9A-Fa-f]{2})>$/;

/** Turns runs of byte tokens into text and lets other tokens pass. */
export function byteFallbackStage(emit: Emit): DecodeStage {
  let run: number[] = [];
  const endRun = () => {
    if (run.length > 0) emit(textOfRun(run));
    run = [];
  };
  return {
    push(piece) {
      const byte = BYTE_TOKEN.exec(piece)?.[1];
      if (byte !== undefined) {
        run.push(Number.parseInt(byte, 16));
        return;
      }
      endRun();
      emit(piece);
    },
    flush: endRun,
  };
}

function textOfRun(run: readonly number[]): string {
  const bytes = Buffer.from(run);
  const text = bytes.toString("utf8");
  const isValid = Buffer.from(text, "utf8").equals(bytes);
  return isValid ? text : "\ufffd".repeat(run.length);
}
