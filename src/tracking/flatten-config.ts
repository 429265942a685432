/** A nested config as names with dots: `algorithm.clipHigh`. Lists and empty objects become JSON. */
export function flattenConfig(config: unknown, prefix = ""): Readonly<Record<string, string | number | boolean>> {
  if (typeof config === "string" || typeof config === "number" || typeof config === "boolean") {
    return { [prefix]: config };
  }
  if (typeof config !== "object" || config === null || Array.isArray(config) || Object.keys(config).length === 0) {
    return { [prefix]: JSON.stringify(config) ?? "undefined" };
  }
  const parts = Object.entries(config).map(([key, value]) =>
    flattenConfig(value, prefix === "" ? key : `${prefix}.${key}`),
  );
  return Object.assign({}, ...parts);
}
