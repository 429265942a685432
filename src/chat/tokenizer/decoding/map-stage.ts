/** A stage that changes each piece by itself. */

import type { DecodeStageFactory } from "./decode-stage.ts";

/** Emits `change(piece, index)`, where `index` counts pieces from 0. Holds nothing back. */
export function mapStage(change: (piece: string, index: number) => string): DecodeStageFactory {
  return (emit) => {
    let index = 0;
    return {
      push: (piece) => emit(change(piece, index++)),
      flush: () => {
        index = 0;
      },
    };
  };
}
