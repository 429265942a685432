/** What a remote server can do of what a `Generate` promises. */
import { RerollError } from "../../errors/reroll-error.ts";

export type CapabilityName =
  | "token-ids-in"
  | "token-ids-out"
  | "sampler-logprobs"
  | "draw-logprobs"
  | "model-logprobs"
  | "top-logprobs"
  | "seed"
  | "stop-ids"
  | "stop-strings"
  | "versions"
  | "partial-replies";

export type Capability =
  | { readonly has: "yes" }
  /** `note` says what is missing and what to do. */
  | { readonly has: "partly" | "no"; readonly note: string };

export type Capabilities = Readonly<Record<CapabilityName, Capability>>;

/** Without these, replies cannot be trained on. */
export const REQUIRED_FOR_TRAINING: readonly CapabilityName[] = ["token-ids-in", "token-ids-out", "sampler-logprobs"];

/** One line per thing that is missing, in whole or in part. */
export function missingOf(capabilities: Capabilities): readonly string[] {
  return entriesOf(capabilities).flatMap(([name, capability]) =>
    capability.has === "yes" ? [] : [`${name}${capability.has === "partly" ? " (in part)" : ""}: ${capability.note}`],
  );
}

/** Throws when one of these is not there at all. */
export function requireCapabilities(
  capabilities: Capabilities,
  required: readonly CapabilityName[],
  url: string,
): void {
  const lacking = entriesOf(capabilities).filter(([name, { has }]) => has === "no" && required.includes(name));
  if (lacking.length === 0) return;
  const lines = missingOf(capabilities).filter((line) => lacking.some(([name]) => line.startsWith(`${name}:`)));
  throw new RerollError("REMOTE_INCAPABLE", `${url} cannot be used. It lacks ${lines.join("; ")}`, { url, lines });
}

function entriesOf(capabilities: Capabilities): readonly (readonly [CapabilityName, Capability])[] {
  return CAPABILITY_NAMES.map((name) => [name, capabilities[name]] as const);
}

const CAPABILITY_NAMES: readonly CapabilityName[] = [
  ...(["token-ids-in", "token-ids-out", "sampler-logprobs", "draw-logprobs", "model-logprobs"] as const),
  ...(["top-logprobs", "seed", "stop-ids", "stop-strings", "versions", "partial-replies"] as const),
];
