/** Calling back whoever asked for tokens as they come. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Finish, SampledTokens } from "../generate.ts";

/** Calls `onTokens`. What it throws fails its own request and no other: it is returned as the way that one ends. */
export function deliverTokens(onTokens: (tokens: SampledTokens) => void, tokens: SampledTokens): Finish | null {
  try {
    onTokens(tokens);
    return null;
  } catch (cause) {
    const error = new RerollError("CALLBACK_FAILED", `onTokens threw: ${String(cause)}`, {}, { cause });
    return { kind: "failed", error };
  }
}
