/**
 * What every `TextEnv` promises: `checkEnv` finds nothing, and what it plays can be repeated from the record.
 *
 * @example
 * describeTextEnvContract("sokoban", () => buildEnv({ type: "sokoban" }));
 */
import { afterAll, describe, expect, test } from "vitest";
import { type CheckEnvOptions, checkEnv } from "../../src/envs/check-env.ts";
import { oracleAgent, playEpisode, randomAgent } from "../../src/envs/play-episode.ts";
import type { EnvFactory } from "../../src/envs/text-env.ts";
import type { Prompt } from "../../src/flow/prompt.ts";

/** What `checkEnv` is told, and what holds besides. */
export interface TextEnvContractOptions extends CheckEnvOptions {
  /** Whether the oracle must win every episode. Default false. */
  readonly isOracleSure?: boolean;
}

/** Declares the tests. `build` is called more than once and must give equal environments. */
export function describeTextEnvContract(
  name: string,
  build: () => EnvFactory,
  { isOracleSure = false, ...options }: TextEnvContractOptions = {},
): void {
  describe(`text env contract: ${name}`, () => {
    const factory = build();
    afterAll(() => factory.close?.());
    const { numEpisodes = 10, seed = 0 } = options;
    const promptAt = (i: number): Prompt =>
      options.prompts?.[i % options.prompts.length] ?? factory.makePrompt!(seed + i);

    test("checkEnv finds nothing", async () => {
      const maxBlockMs = 500;
      expect(await checkEnv(factory, { clock: () => performance.now(), maxBlockMs, ...options })).toEqual([]);
    });

    test("a second factory with the same options plays the same games", async () => {
      const other = build();
      for (let i = 0; i < numEpisodes; i++) {
        const one = await playEpisode(await factory.makeEnv(promptAt(i), i), randomAgent(i));
        const two = await playEpisode(await other.makeEnv(promptAt(i), i), randomAgent(i));
        expect(two).toEqual(one);
      }
      await other.close?.();
    });

    test("many episodes at once go as they go one by one", async () => {
      const play = async (i: number) => playEpisode(await factory.makeEnv(promptAt(i), i), randomAgent(i));
      const together = await Promise.all(Array.from({ length: numEpisodes }, (_, i) => play(i)));
      for (let i = 0; i < numEpisodes; i++) expect(await play(i)).toEqual(together[i]);
    });

    test("the last step says whether the episode was a success", async () => {
      for (let i = 0; i < numEpisodes; i++) {
        const { turns } = await playEpisode(await factory.makeEnv(promptAt(i), i), randomAgent(i));
        expect([0, 1]).toContain(turns.at(-1)?.step.metrics.success);
      }
    });

    if (!isOracleSure) return;
    test("the oracle wins every episode", async () => {
      for (let i = 0; i < numEpisodes; i++) {
        const { metrics } = await playEpisode(await factory.makeEnv(promptAt(i), i), oracleAgent());
        expect(metrics.success).toBe(1);
      }
    });
  });
}
