/** Reads the sets of a `data` part once, so that what is wrong with a row is known before a run needs it. */
import { buildSource } from "./build-source.ts";
import type { DataOptions } from "./data-options.ts";

/** A line for each set about what was found. Prompts of environments are not made. `path` is where the part stands in the run file. */
export async function readAll(options: DataOptions, path: string): Promise<readonly string[]> {
  switch (options.type) {
    case "env":
      return [];
    case "curriculum":
      return readAll(options.source, `${path}.source`);
    case "mix": {
      const parts = options.parts.map(({ source }, i) => readAll(source, `${path}.parts.${i}.source`));
      return (await Promise.all(parts)).flat();
    }
    default:
      return (await buildSource(options, { seed: 0 }, path)).statements;
  }
}
