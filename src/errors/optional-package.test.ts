import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { expectPackage, optionalPackages } from "./optional-package.ts";

test("a package that is missing is asked for by name, with what needs it and what else would help", () => {
  const missing = () => undefined;
  expect(() => expectPackage("@mujoco/mujoco", 'env.type "hopper"', "", missing)).toThrow(
    'env.type "hopper" needs the package @mujoco/mujoco, which is not installed. Run: npm install @mujoco/mujoco@3.14.0',
  );
  expect(() => expectPackage("quickjs-emscripten", "It", "Or leave it out.", missing)).toThrow(
    "Run: npm install quickjs-emscripten@0.32.0. Or leave it out.",
  );
  expect(() => expectPackage("quickjs-emscripten", "It")).not.toThrow();
});

test("a version that is not compatible with the one we test with is refused, and a later one that is passes", () => {
  const check = (version: string) => () => expectPackage("@mlc-ai/web-xgrammar", "It", "", () => version);
  for (const version of ["0.1.27", "0.1.28"]) expect(check(version)).not.toThrow();
  expect(check("0.2.0")).toThrow(
    "It needs @mlc-ai/web-xgrammar 0.1.27, or a later one that is compatible: 0.2.0 is installed. Run: npm install @mlc-ai/web-xgrammar@0.1.27",
  );
  for (const version of ["0.1.26", "1.1.27"]) expect(check(version)).toThrow(`${version} is installed`);
  expect(() => expectPackage("@mujoco/mujoco", "It", "", () => "3.15.0")).not.toThrow();
});

test("the versions are those that we test with, and users need not install them", () => {
  const { devDependencies, dependencies, peerDependencies, peerDependenciesMeta } = JSON.parse(
    readFileSync("package.json", "utf8"),
  );
  expect(devDependencies).toMatchObject(optionalPackages);
  expect(Object.keys(peerDependencies)).toEqual(Object.keys(optionalPackages));
  expect(Object.values(peerDependenciesMeta)).toEqual(Object.keys(optionalPackages).map(() => ({ optional: true })));
  expect(Object.keys(dependencies)).not.toEqual(expect.arrayContaining(Object.keys(optionalPackages)));
});
