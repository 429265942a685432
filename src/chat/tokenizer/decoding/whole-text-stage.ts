/** A step that can only be done on the whole text, such as a regular expression over joined tokens. */

import type { DecodeStageFactory } from "./decode-stage.ts";

/** Gives the joined pieces to `inner` as one piece. Holds back everything until `flush`. */
export function wholeTextStage(inner: DecodeStageFactory): DecodeStageFactory {
  return (emit) => {
    const stage = inner(emit);
    let text = "";
    return {
      push: (piece) => {
        text += piece;
      },
      flush() {
        if (text !== "") stage.push(text);
        stage.flush();
        text = "";
      },
    };
  };
}
