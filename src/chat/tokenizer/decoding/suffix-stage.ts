/** Decoding of vocabularies that mark the end of a word with a suffix such as `</w>`. */

import type { DecodeStageFactory } from "./decode-stage.ts";

/** Turns the suffix into a space, except in the last token, where it is dropped. Holds back one token. */
export function suffixStage(suffix: string): DecodeStageFactory {
  return (emit) => {
    let held: string | undefined;
    return {
      push(piece) {
        if (held !== undefined) emit(held.replaceAll(suffix, " "));
        held = piece;
      },
      flush() {
        if (held !== undefined) emit(held.replaceAll(suffix, ""));
        held = undefined;
      },
    };
  };
}
