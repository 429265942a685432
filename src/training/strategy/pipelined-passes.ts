/**
 * The passes of an update where layers are in stages: one forward, one backward (Narayanan et al. 2021).
 *
 * A stage makes as many passes forward as there are stages behind it, then one backward and one forward in turn, so that it never has more of
 * them under way, however many an update has. The last stage computes losses, and goes backward at once.
 */
import type { StagePass, Stages } from "../../torch/distributed/stages.ts";
import type { Strategy, UpdatePass } from "./strategy.ts";

export async function runInStages(
  stages: Stages,
  passes: readonly UpdatePass[],
  backward: Strategy["backward"],
): Promise<void> {
  const underWay: StagePass[] = [];
  for (const { forward, loss } of passes) {
    if (stages.isLast) stages.turn(() => backward(loss(forward())));
    else underWay.push(stages.record(() => handedOn(forward())));
    if (underWay.length > stages.numBehind) stages.differentiate(underWay.shift()!);
  }
  for (const pass of underWay) stages.differentiate(pass);
  await stages.settle();
}

function handedOn({ policy_SD, critic_SD }: ReturnType<UpdatePass["forward"]>) {
  return critic_SD === null ? [policy_SD] : [policy_SD, critic_SD];
}
