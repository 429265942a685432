/** A config as a list: `training.optimizer.lr` and its value as text. Lists are values. */
export function flattenConfig(config: unknown, prefix = ""): ReadonlyMap<string, string> {
  if (typeof config !== "object" || config === null || Array.isArray(config) || Object.keys(config).length === 0) {
    return new Map(prefix === "" ? [] : [[prefix, JSON.stringify(config) ?? "undefined"]]);
  }
  return new Map(
    Object.entries(config).flatMap(([key, value]) => [
      ...flattenConfig(value, prefix === "" ? key : `${prefix}.${key}`),
    ]),
  );
}
