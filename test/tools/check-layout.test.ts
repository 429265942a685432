import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const script = fileURLToPath(new URL("../../scripts/check-layout.mjs", import.meta.url));
let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "reroll-layout-"));
});
afterEach(() => rmSync(root, { recursive: true }));

/** Writes sources under src, all of them imported by a test, and returns what the checker says, one violation per entry. */
function check(sources: Record<string, string>): string[] {
  const files = Object.keys(sources).map((file) => `import * as module from "../src/${file}";\n`);
  return checkFiles({
    "test/uses.ts": files.join(""),
    ...Object.fromEntries(Object.entries(sources).map(([file, text]) => [`src/${file}`, text])),
  });
}

function checkFiles(sources: Record<string, string>): string[] {
  for (const [file, text] of Object.entries(sources)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, root], { encoding: "utf8" });
  const lines = stderr.trimEnd().split("\n").slice(0, -1);
  expect(status).toBe(lines.length === 0 ? 0 : 1);
  if (lines.length === 0) expect(stdout).toContain("are where they belong");
  return lines;
}

describe("what is allowed", () => {
  test("imports that go down the layers pass, in every form of import", () => {
    expect(
      check({
        "errors/reroll-error.ts": "export class RerollError extends Error {}",
        "torch/tensor.ts": 'import { RerollError } from "../errors/reroll-error.ts";\nexport { RerollError };',
        "flow/prompt.ts": 'export type { RerollError } from "../torch/tensor.ts";',
        "rollout/episode.ts": 'export const load = () => import("../flow/prompt.ts");',
        "index.ts": 'export * from "./rollout/episode.ts";\nimport "node:fs";',
      }),
    ).toEqual([]);
  });

  test("words in comments, strings, templates and regular expressions are not code", () => {
    expect(
      check({
        "data/texts.ts": [
          '// import { a } from "../cli/a.ts"; console.log(Math.random())',
          "/* export default Date.now() */",
          "export const a = 'import x from \"../cli/a.ts\"; console.log';",
          // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the code under test.
          'export const b = `Date.now() ${"Math.random()"} from "../cli/a.ts"`;',
          "export const c = /[\"'`/]console.log/.test(a) ? 4 / 2 : 1;",
          'export const d = Array.from("abc");',
        ].join("\n"),
      }),
    ).toEqual([]);
  });

  test("two files of one folder may know each other's types", () => {
    expect(
      check({
        "torch/tensor.ts": 'import type { Operators } from "./operators.ts";\nexport type Tensor = Operators;',
        "torch/operators.ts": 'import { type Tensor } from "./tensor.ts";\nexport type Operators = Tensor;',
      }),
    ).toEqual([]);
  });

  test("the cli may print, the run folder may read the clock, generated files may be long, tests may leave src", () => {
    expect(
      check({
        "cli/main.ts": "console.log(1);",
        "tracking/console.ts": "console.log(Date.now());",
        "run/start.ts": "export const now = performance.now();",
        "torch/generated/operators.ts": "export {};\n".repeat(600),
        "data/jsonl.test.ts": "export const start = performance.now();",
        "data/mixture.test.ts": 'import "../../test/contracts/prompt-source.ts";',
      }),
    ).toEqual([]);
  });
});

describe("imports", () => {
  test("an import upward names the line, the folder and what is allowed", () => {
    const [line] = check({
      "algorithms/gae.ts": 'export const a = 1;\nimport { b } from "../training/trainer.ts";\nexport { b };',
      "training/trainer.ts": "export const b = 1;",
    });
    expect(line).toMatch(
      /^src\/algorithms\/gae\.ts:2 algorithms may not import training \(src\/training\/trainer\.ts\)/,
    );
    expect(line).toContain("It may import: errors, torch, flow.");
  });

  test("type imports and dynamic imports count as imports between folders", () => {
    const lines = check({
      "envs/text.ts":
        'import type { A } from "../rewards/rule.ts";\nexport const b = (): Promise<A> => import("../rollout/a.ts");',
      "rewards/rule.ts": "export type A = 1;",
      "rollout/a.ts": "export const a = 1;",
    });
    expect(lines.map((line) => line.split(" (")[0])).toEqual([
      "src/envs/text.ts:1 envs may not import rewards",
      "src/envs/text.ts:2 envs may not import rollout",
    ]);
  });

  test("a cycle of folders is shown with the imports that make it", () => {
    const lines = check({
      "models/a.ts": 'export * from "../flow/b.ts";',
      "flow/b.ts": "export const b = 1;",
      "flow/c.ts": 'export * from "../models/d.ts";',
      "models/d.ts": "export const d = 1;",
    });
    expect(lines).toContainEqual(
      expect.stringContaining(
        "folders form a cycle: flow -> models -> flow (src/flow/c.ts:1 imports src/models/d.ts, src/models/a.ts:1 imports src/flow/b.ts)",
      ),
    );
  });

  test("a cycle of files is an error inside one folder too", () => {
    const lines = check({
      "data/a.ts": 'export * from "./b.ts";',
      "data/b.ts": 'export * from "./c.ts";',
      "data/c.ts": 'export * from "./a.ts";',
    });
    expect(lines).toEqual([
      "src/data/a.ts:1 files import each other: src/data/a.ts -> src/data/b.ts -> src/data/c.ts -> src/data/a.ts. Move what they share to a file of its own.",
    ]);
  });

  test("an import must name the file with its ending and stay in src", () => {
    const lines = check({
      "data/a.ts": 'export * from "./b";\nexport * from "./b.js";\nexport * from "../../scripts/c.ts";',
      "data/b.ts": "export const b = 1;",
    });
    expect(lines).toEqual([
      'src/data/a.ts:1 "./b" must name the file with its ending, as in "./b.ts".',
      'src/data/a.ts:2 "./b.js" must name the file with its ending, as in "./b.ts".',
      'src/data/a.ts:3 "../../scripts/c.ts" leaves src. What src imports must lie in src.',
    ]);
  });

  test("a folder that nobody decided on is an error", () => {
    const [line] = check({ "bystanders/a.ts": "export const a = 1;" });
    expect(line).toContain("src/bystanders is not a known folder");
  });

  test("nothing in src imports the public index", () => {
    const [line] = check({ "data/a.ts": 'export * from "../index.ts";', "index.ts": "export const a = 1;" });
    expect(line).toContain("src/data/a.ts:1 src/index.ts is for users of the package");
  });
});

describe("exports", () => {
  test("a name that nothing imports is an error, whether value or type", () => {
    const lines = checkFiles({
      "src/data/rows.ts": "export const used = 1;\nexport interface Options {}\nexport async function dead() {}\n",
      "src/data/source.ts": 'import { type Other, used as first } from "./rows.ts";\n',
    });
    expect(lines).toEqual([
      expect.stringContaining("src/data/rows.ts:2 nothing imports Options."),
      expect.stringContaining("src/data/rows.ts:3 nothing imports dead."),
    ]);
  });

  test("an entry point, a re-export, a test, a script and an import at run time are uses", () => {
    expect(
      checkFiles({
        "src/data/a.ts": "export const a = 1;\n",
        "src/data/b.ts": "export class B {}\n",
        "src/data/c.ts": "export type C = 1;\n",
        "src/data/d.ts": "export function* d() {}\n",
        "src/data/e.ts": "export let e = 1;\n",
        "src/data/index.ts": 'export { a } from "./a.ts";\n',
        "src/rollout/again.ts": 'export { B as Again } from "../data/b.ts";\n',
        "test/data/c.test.ts": 'import type { C } from "../../src/data/c.ts";\n',
        "scripts/d.mjs": 'import * as all from "../src/data/d.ts";\n',
        "bench/e.ts": 'const { e } = await import("../src/data/e.ts");\n',
      }),
    ).toEqual([]);
  });

  test("the test beside a file keeps nothing alive, but may look at what the file uses itself", () => {
    const lines = checkFiles({
      "src/data/hash.ts": "export const mix = 1;\nexport const dead = 1;\nexport const hash = mix + 1;\n",
      "src/data/hash.test.ts": 'import { dead, hash, mix } from "./hash.ts";\n',
      "src/data/split.ts": 'import { hash } from "./hash.ts";\n',
    });
    expect(lines).toEqual([expect.stringContaining("src/data/hash.ts:2 nothing imports dead.")]);
  });

  test("an entry point may collect names of every folder, and no file of src may import it", () => {
    const lines = check({
      "rewards/math.ts": "export const math = 1;\n",
      "torch/index.ts": 'export { math } from "../rewards/math.ts";\n',
      "rewards/other.ts": 'import { math } from "../torch/index.ts";\n',
    });
    expect(lines).toEqual([
      expect.stringContaining("src/rewards/other.ts:1 src/torch/index.ts is for users of the package"),
    ]);
  });
});

describe("files", () => {
  test.each(["data/utils.ts", "data/tensor-helpers.ts", "data/common/a.ts", "data/misc.test.ts"])(
    "%s has a name that says nothing",
    (file) => {
      expect(check({ [file]: "export {};" })[0]).toContain("says nothing about its content");
    },
  );

  test.each(["data/jsonLines.ts", "data/JsonLines.ts", "data/json_lines.ts", "data/Lines/a.ts"])(
    "%s is not kebab-case",
    (file) => {
      expect(check({ [file]: "export {};" })[0]).toContain("must be kebab-case");
    },
  );

  test("a file of 500 lines passes and one of 501 does not", () => {
    const lines = check({ "data/a.ts": "export {};\n".repeat(500), "data/b.ts": "export {};\n".repeat(501) });
    expect(lines).toEqual(["src/data/b.ts:501 has 501 lines; 500 are allowed. Split it by what its parts do."]);
  });
});

describe("code", () => {
  test.each([
    ["console.log(1);", "console is for"],
    ["export default 1;", "default exports are not used"],
    ["const a = 1;\nexport { a as default };", "default exports are not used"],
    ["export const a = Math.random();", "Math.random cannot be repeated"],
    ["export const a = Date.now();", "the clock is read in cli, run, tracking only"],
    ["export const a = performance.now();", "the clock is read in cli, run, tracking only"],
    ["export const a = new Date();", "the clock is read in cli, run, tracking only"],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the code under test.
    ["export const a = `x ${Math.random()} y`;", "Math.random cannot be repeated"],
  ])("a stage with %j fails", (code, message) => {
    const lines = check({ "rollout/episode.ts": code });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain(message);
  });

  test("the line of a violation is the line of the file, comments included", () => {
    const [line] = check({ "data/a.ts": "/* one\ntwo */\n\n  console.warn('three');\n" });
    expect(line).toMatch(/^src\/data\/a\.ts:4 /);
  });
});
