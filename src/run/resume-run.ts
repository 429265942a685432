/**
 * What a run keeps when it is resumed: the `--set` words it was started with, and what may not change on the way.
 *
 * Secrets are never kept. They come from the run file again, from the environment, or from a new `--set`.
 */
import { redact } from "../errors/redact.ts";
import { SECRET } from "../errors/redact-text.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { type Override, parseOverride } from "./apply-overrides.ts";
import { leavesOf } from "./leaves-of.ts";
import { modelDigest } from "./model-digest.ts";

/** The words of a run and those of the command line, in order: later ones win. Throws where a secret has to be given again. */
export function joinSets(kept: readonly string[], given: readonly string[]): readonly string[] {
  const words = [...kept, ...given];
  const paths = words.map(pathOf);
  const joined = words.filter((_, i) => !paths.some((later, k) => k > i && isWithin(paths[i]!, later)));
  const lost = joined.find((word) => kept.includes(word) && word.endsWith(`=${SECRET}`));
  if (lost === undefined) return joined;
  const key = lost.slice(0, lost.indexOf("="));
  throw new RerollError(
    "MISSING_KEY",
    `${key} was given with --set when the run started. It holds a secret, which a run does not keep: give it again with ` +
      `--set ${key}=..., or have it read from an environment variable with --set '${key}={"env":"NAME"}'.`,
    { key },
  );
}

/** The words as they are kept: without the value where it holds a secret. */
export function keptSets(sets: readonly string[], config: object): readonly string[] {
  const shown = redact(config);
  return sets.map((word) => {
    const path = pathOf(word);
    const value = JSON.stringify(valueAt(shown, path)) ?? "";
    return value.includes(SECRET) ? `${path.join(".")}=${SECRET}` : word;
  });
}

/** Says how a run goes on with another config than it had. Throws for what belongs to the state that was saved. */
export function compareConfigs(before: unknown, config: object, folder: string): readonly string[] {
  if (typeof before !== "object" || before === null) return [];
  const after: object = JSON.parse(JSON.stringify(redact(config)));
  const keys = [...new Set([...leavesOf(before), ...leavesOf(after)].map(({ key }) => key))];
  const changed = keys.flatMap((key) => {
    const [old, now] = [before, after].map((one) => JSON.stringify(valueAt(one, key.split("."))) ?? "nothing");
    const isOfPlace = key === "name" || key === "tracking.folder";
    return old === now || isOfPlace ? [] : [{ key, old: old!, now: now! }];
  });
  const refused = changed.find(({ key }) => FIXED.some((fixed) => isWithin(key.split("."), fixed.split("."))));
  if (refused !== undefined) {
    throw new RerollError(
      "CONTRADICTORY_OPTIONS",
      `${refused.key} is ${refused.now}, and the run in ${folder} has ${refused.old}. A run cannot change it on the way: ` +
        "leave it as it was, or start a new run from the weights of this one by setting model.path.",
      { key: refused.key },
    );
  }
  // Of a whole object that came or went, the object says enough.
  const tops = changed.filter(
    ({ key }) => !changed.some((one) => one.key !== key && isWithin(key.split("."), one.key.split("."))),
  );
  return tops.map(({ key, old, now }) => `Changed since the run was started: ${key} was ${old} and is ${now}.`);
}

/** Throws where the model of a run has been exchanged: adapters belong to their base, and references are the weights at the start. */
export async function expectSameModel(digest: string | null, modelPath: string | null, folder: string): Promise<void> {
  if (digest === null || modelPath === null || digest === (await modelDigest(modelPath))) return;
  throw new RerollError(
    "CONTRADICTORY_OPTIONS",
    `model.path is ${JSON.stringify(modelPath)}, whose weights are not those that the run in ${folder} started from. A run cannot change ` +
      "them on the way: give the folder that it started from, wherever that is now, or start a new run.",
    { key: "model.path" },
  );
}

/** Keys that the saved state depends on, each with everything below it. */
const FIXED = [
  "kind",
  "seed",
  "model.preset",
  "model.lora",
  "model.quantization",
  "algorithm.type",
  "objective.type",
  "loop.rowsPerStep",
];

/** The value is not read: where it was a secret it is none any more. */
function pathOf(word: string): Override["path"] {
  return word.includes("=") ? word.slice(0, word.indexOf("=")).trim().split(".") : parseOverride(word).path;
}

function isWithin(path: Override["path"], above: Override["path"]): boolean {
  return above.every((key, i) => path[i] === key);
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (at, key) => (typeof at === "object" && at !== null ? (at as Record<string, unknown>)[key] : undefined),
    value,
  );
}
