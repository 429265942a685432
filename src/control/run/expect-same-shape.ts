/** Refuses to go on from a checkpoint of other networks. */
import { RerollError } from "../../errors/reroll-error.ts";

/** Compares what a run asks for with what a checkpoint holds, key by key. */
export function expectSameShape<Shape extends object>(shape: Shape, saved: Shape, folder: string): void {
  for (const key of Object.keys(saved) as (keyof Shape & string)[]) {
    const [asked, found] = [JSON.stringify(shape[key]), JSON.stringify(saved[key])];
    if (asked === found) continue;
    throw new RerollError(
      "CHECKPOINT_MISMATCH",
      `The policy in ${folder} has ${key} ${found}, and this run asks for ${asked}. Go on with the environment and the ` +
        "policy that the run began with, or start a new one without --resume.",
    );
  }
}
