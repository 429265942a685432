import { expect, test } from "vitest";
import { createMujocoEnv } from "./create-mujoco-env.ts";
import { MujocoEnv } from "./mujoco-env.ts";
import { renderStrip } from "./render-strip.ts";

test("a capsule from the side is a line along its axis, as thick as it is", () => {
  const picture = renderStrip(
    [
      {
        shapes: [
          { kind: "plane", position: [0, 0, 0] },
          { kind: "capsule", position: [3, 0, 1], axis: [0, 0, 1], radius: 0.05, halfLength: 0.2 },
        ],
      },
    ],
    { view: "side" },
  );
  // Heights are negated, and the panel of 2.4 m follows the body at x = 3.
  expect(picture).toContain('x1="3" y1="-0.8" x2="3" y2="-1.2"');
  expect(picture).toContain('stroke-width="0.1"');
  expect(picture).toContain('viewBox="1.8 -2.2 2.4 2.4"');
  // Ground marks every half meter within 1.8 to 4.2.
  expect([...picture.matchAll(/y1="0" x2="([\d.]+)" y2="0.06"/g)].map(([, x]) => x)).toEqual([
    "2",
    "2.5",
    "3",
    "3.5",
    "4",
  ]);
});

test("a cylinder from above is a circle, a mark a cross, and captions are text", () => {
  const shapes = [
    { kind: "cylinder", position: [0.1, 0.2, 0], axis: [0, 0, 1], radius: 0.06, halfLength: 0.01 },
    { kind: "mark", position: [0.4, 0, 0] },
  ] as const;
  const picture = renderStrip([{ shapes }, { shapes }], { view: "top", captions: ["a < b", "c"] });
  expect(picture).toContain('cx="0.1" cy="-0.2" r="0.06"');
  expect(picture).toContain('x1="0.36" y1="-0.04" x2="0.44" y2="0.04"');
  expect(picture).toContain("a &lt; b");
  expect(picture).toContain('width="320" height="178"');
});

test("taking pictures changes nothing about the episode", async () => {
  const play = async (takesPictures: boolean) => {
    const env = await createMujocoEnv({ type: "half-cheetah", numEnvs: 1 });
    if (!(env instanceof MujocoEnv)) throw new Error("without threads");
    env.reset(2);
    const frames = [];
    for (let i = 0; i < 30; i++) {
      env.step(new Float32Array(6).fill(0.4));
      if (takesPictures) frames.push(env.frame(0));
    }
    const saved = env.save();
    await env.close();
    return { saved, frames };
  };
  const { saved, frames } = await play(true);
  expect(saved).toEqual((await play(false)).saved);
  // The floor, the trunk, the head and six parts of legs.
  expect(frames[0]!.shapes.map(({ kind }) => kind)).toEqual(["plane", ...new Array(8).fill("capsule")]);
});
