/** Prompts that are made on servers: one that is lost has made no wrong prompt, so it is asked again for the same one until it is back. */
import type { PromptMaker } from "../data/build-source.ts";
import type { EnvFactory } from "../envs/text-env.ts";
import type { Clock } from "../flow/clock.ts";
import { isServiceLost } from "../services/service-client.ts";

/** No further round begins after this. */
const PATIENCE_MS = 5 * 60_000;

interface PatientOptions {
  readonly clock: Clock;
  /** Told of each loss once. */
  readonly report?: ((text: string) => void) | undefined;
}

/** Rejects with SERVICE_LOST, which ends the run, where no server comes back. */
export function patientPrompts(
  domain: string,
  fetchPrompt: NonNullable<EnvFactory["fetchPrompt"]>,
  { clock, report }: PatientOptions,
): PromptMaker {
  return {
    makePrompt: async (seed) => {
      const startMs = clock();
      for (let round = 1; ; round++) {
        try {
          return await fetchPrompt(seed);
        } catch (cause) {
          if (!isServiceLost(cause) || clock() - startMs >= PATIENCE_MS) throw cause;
          if (round === 1) report?.(`envs.${domain} makes no prompts: ${cause.message} It is asked again.`);
        }
      }
    },
  };
}
