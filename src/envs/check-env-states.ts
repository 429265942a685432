/** Compares the state keys of one episode with what is seen: equal states have equal keys, equal keys mean equal states. */
import type { Observation } from "./text-env.ts";

/** Reports `state-key` when an observation contradicts an earlier one. */
export class StateKeys {
  readonly #report: (rule: string, text: string) => void;
  readonly #keyOf = new Map<string, string | undefined>();
  readonly #pictureOf = new Map<string, string | undefined>();

  constructor(report: (rule: string, text: string) => void) {
    this.#report = report;
  }

  see({ messages, stateKey }: Observation, picture: string | undefined): void {
    // Both together: a notice in the messages may come and go without a change of state.
    const seen = JSON.stringify([messages, picture ?? null]);
    if (this.#keyOf.has(seen) && this.#keyOf.get(seen) !== stateKey) {
      this.#report(
        "state-key",
        `Equal observations have the keys ${JSON.stringify(this.#keyOf.get(seen))} and ${JSON.stringify(stateKey)}. Make the key from the state alone, without turn numbers or chance.`,
      );
    }
    this.#keyOf.set(seen, stateKey);
    if (stateKey === undefined || picture === undefined) return;
    if ((this.#pictureOf.get(stateKey) ?? picture) !== picture) {
      this.#report("state-key", `The key ${JSON.stringify(stateKey)} stands for states that render differently.`);
    }
    this.#pictureOf.set(stateKey, picture);
  }
}
