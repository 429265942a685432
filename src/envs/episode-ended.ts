/** What an environment throws when it is asked for a step after its last one: that is a bug of the caller. */
import { RerollError } from "../errors/reroll-error.ts";

/** The error, with the environment's name. */
export function episodeEnded(type: string): RerollError {
  return new RerollError("EPISODE_ENDED", `Env "${type}" was stepped after its episode had ended. Make another one.`);
}
