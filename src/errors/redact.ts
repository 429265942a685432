/** A config as it may be written and shown: every secret in it replaced, whoever declared the option. */
import { isSecretName, redactText, remember, SECRET } from "./redact-text.ts";
import { RerollError } from "./reroll-error.ts";
import { Secret } from "./secret.ts";

/**
 * A copy without secrets. Values of type `Secret` show themselves; texts that no schema knows, such as options of one's own
 * environments, are replaced where their name or their form gives them away. Functions stay.
 */
export function redact(value: unknown, name = ""): unknown {
  if (value instanceof Secret) return value.toJSON();
  if (typeof value === "string") {
    if (!isSecretName(name)) return redactText(value);
    // From here on no text shows it either: errors of foreign code like to repeat what they were given.
    remember(value);
    return SECRET;
  }
  if (Array.isArray(value)) return value.map((item, i) => redact(item, flagBefore(value, i)));
  if (typeof value !== "object" || value === null || "toJSON" in value) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, redact(inner, key)]));
}

/** The values themselves in place of secrets, for the thread that uses them. */
export function revealAll(value: unknown): unknown {
  if (value instanceof Secret) return value.reveal();
  if (Array.isArray(value)) return value.map(revealAll);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, revealAll(inner)]));
}

/** Throws for the first secret whose environment variable is not set. */
export function expectSecrets(value: unknown, path = ""): void {
  if (value instanceof Secret) {
    const [name] = value.missing;
    if (name === undefined) return;
    throw new RerollError(
      "MISSING_KEY",
      `${path} is read from the environment variable ${name}, which is not set. Export it before the run starts.`,
      { name },
    );
  }
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) expectSecrets(inner, path === "" ? key : `${path}.${key}`);
}

/** In a list of words as for a command line, the flag that a word belongs to: `--token` of `["--token", "abc"]`. */
function flagBefore(list: readonly unknown[], i: number): string {
  const before = list[i - 1];
  return typeof before === "string" && before.startsWith("-") ? before : "";
}
