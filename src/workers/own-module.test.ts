import { expect, test } from "vitest";
import { ownModule } from "./own-module.ts";

const dist = new URL("../../dist/", import.meta.url);
const fileOf = (module: string) => ownModule(new URL(module, dist)).href;

test("a worker that imports most of the package begins with its bundle", () => {
  expect(fileOf("training/trainer-worker")).toBe(new URL("bundled/trainer-worker.js", dist).href);
  expect(fileOf("run/engine-process")).toBe(new URL("bundled/engine-process.js", dist).href);
});

test("a worker that imports files of a user's, and a module that is not ours, begin with themselves", () => {
  expect(fileOf("envs/env-worker")).toBe(new URL("envs/env-worker.js", dist).href);
  expect(fileOf("file:///elsewhere/trainer-worker")).toBe("file:///elsewhere/trainer-worker.js");
});
