import { expect, test } from "vitest";
import { exampleConfig } from "../../test/cli/example-run.ts";
import { playEpisode, randomAgent } from "../envs/play-episode.ts";
import { buildWorld } from "./build-rollout.ts";

const clock = () => 0;
const signal = new AbortController().signal;

test("environments in threads play the same episodes, and can be played without a model beside them", async () => {
  const [here, away] = await Promise.all(
    [0, 2].map((threads) => buildWorld(exampleConfig(`rollout.envThreads=${threads}`), clock)),
  );
  try {
    const prompt = here!.envs.lake!.makePrompt!(7);
    expect(away!.envs.lake!.makePrompt!(7)).toEqual(prompt);
    const { turns } = await playEpisode(await here!.makeEnv(prompt, 3), randomAgent(5));
    expect(await playEpisode(await away!.makeEnvHere(prompt, 3), randomAgent(5))).toMatchObject({ turns });
    const env = await away!.makeEnv(prompt, 3);
    expect(env.randomReply).toBeUndefined();
    await env.start(signal);
    const steps = [];
    for (const { reply } of turns) steps.push(await env.step({ text: reply, isCut: false }, signal));
    expect(steps).toEqual(turns.map(({ step }) => step));
  } finally {
    await Promise.all([here!.close(), away!.close()]);
  }
});
