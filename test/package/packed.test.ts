/** The package as a user gets it: packed, put into a project without network, compiled against and run. */
import { execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { entryPoints } from "../surface/entry-points.ts";

const { compileReason } = await import(new URL("../../scripts/setup/compile-typescript.mjs", import.meta.url).href);
const stale: string | null = compileReason(process.cwd());
const describePacked = describe.skipIf(stale !== null);
const reason = stale === null ? "" : ` (dist is old, ${stale}: run "npm run setup")`;
const project = mkdtempSync(join(tmpdir(), "reroll-packed-"));
const installed = join(project, "node_modules/reroll");
const command = join(installed, "dist/cli/main.js");
const cache = join(project, "cache");
/** What `reroll init` said about the project that it made. */
let scaffold = "";
const modules = entryPoints.map(({ name }) => name);

beforeAll(() => {
  if (stale !== null) return;
  install();
  scaffold = run(command, "init", "first", "--task", "environment", "--model", "nano").output;
});
afterAll(() => rmSync(project, { recursive: true }));

describePacked(`what is in it${reason}`, () => {
  test("the page of the dashboard, the guides that messages point to, and what builds the addon", () => {
    const files = [
      "dist/dashboard/app/index.html",
      "docs/guides/runs.md",
      "docs/guides/installing.md",
      "native/CMakeLists.txt",
      "scripts/setup.mjs",
    ];
    expect(files.filter((file) => !existsSync(join(installed, file)))).toEqual([]);
  });

  test("every file that its documents link to", () => {
    const all = readdirSync(installed, { recursive: true, encoding: "utf8" });
    const links = all
      .filter((file) => file.endsWith(".md"))
      .flatMap((file) =>
        [...readFileSync(join(installed, file), "utf8").matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => ({
          file,
          link: link!,
        })),
      )
      .filter(({ link }) => !/^([a-z]+:|#)/.test(link));
    expect(links.length).toBeGreaterThan(200);
    const broken = links.filter(({ file, link }) => !existsSync(join(installed, dirname(file), link.split("#")[0]!)));
    expect(broken).toEqual([]);
  });

  test("nothing that only a checkout needs", () => {
    const all = readdirSync(installed, { recursive: true, encoding: "utf8" });
    expect(
      all.filter((file) => /\.map$|\.test\.|^(src|test|build|node_modules)\b|^native\/schemas/.test(file)),
    ).toEqual([]);
  });

  test("it is not packed where it is not compiled", () => {
    const clone = join(project, "clone");
    cpSync("scripts", join(clone, "scripts"), { recursive: true });
    const { status, output } = run(join(clone, "scripts/check-package.mjs"));
    rmSync(clone, { recursive: true });
    expect(status).toBe(1);
    expect(output).toContain('there is no dist; the dashboard\'s page is not built. Run "npm run setup" first');
  });
});

describePacked(`types${reason}`, () => {
  test.each(["nodenext", "bundler"] as const)(
    "a strict project compiles against every entry point with moduleResolution %s",
    (resolution) => {
      write("run.ts", RUN_FILE);
      write("everything.ts", modules.map((name, i) => `import * as m${i} from "${name}";\nvoid m${i};\n`).join(""));
      const scaffold = ["first/run.ts", "first/env.ts", "first/check.ts"];
      expect(diagnose(["run.ts", "everything.ts", ...scaffold], resolution)).toEqual([]);
    },
  );

  test("what is no entry point cannot be imported", () => {
    write(
      "inside.ts",
      'import "reroll/dist/run/train-run.js";\nimport { native } from "reroll/torch/binding";\nvoid native;\n',
    );
    expect(diagnose(["inside.ts"], "nodenext")).toEqual([
      expect.stringContaining(
        "Cannot find module or type declarations for side-effect import of 'reroll/dist/run/train-run.js'",
      ),
      expect.stringContaining("Cannot find module 'reroll/torch/binding'"),
    ]);
  });
});

/** The addon is built on the user's machine; until then the package has none. */
describePacked(`without the addon${reason}`, () => {
  test("every entry point can be imported", () => {
    write("all.mjs", `for (const name of ${JSON.stringify(modules)}) await import(name);\nconsole.log("imported");\n`);
    expect(run("all.mjs")).toEqual({ status: 0, output: "imported\n" });
  });

  test("the command shows its help", () => {
    const { status, output } = run(command, "--help");
    expect(status).toBe(0);
    expect(output).toContain("Usage: reroll");
  });

  test("what needs a tensor says that the addon is missing and what to do", () => {
    write("tensor.mjs", 'import { tensor } from "reroll/torch";\ntensor([1]);\n');
    const { status, output } = run("tensor.mjs");
    expect(status).toBe(1);
    expect(output).toContain("ADDON_MISSING");
    expect(output).toContain("Run: npx reroll setup");
  });

  test("a command that needs it says so before it does anything", () => {
    write("run.ts", RUN_FILE);
    const { status, output } = run(command, "train", "run.ts", "--set", "tracking.folder=never");
    expect({ status, output }).toEqual({
      status: 1,
      output: expect.stringMatching(
        /^error: The native addon is not built for this machine: .*Run: npx reroll setup\n$/,
      ),
    });
    expect(existsSync(join(project, "never"))).toBe(false);
  });

  test("a run file that is not there is said before that", () => {
    for (const words of [
      ["train", "nosuch.ts"],
      ["plan", "nosuch.ts", "--gpus", "8"],
      ["serve-environments", "nosuch.ts"],
      ["eval", ".", "--run-file", "nosuch.ts"],
    ]) {
      const { status, output } = run(command, ...words);
      expect(output).toBe(
        `error: The run file nosuch.ts does not exist (looked for ${join(project, "nosuch.ts")}). Check the path.\n`,
      );
      expect(status).toBe(2);
    }
  });

  test("doctor names what is missing and what to type, and ends as a failure does", () => {
    const { status, output } = run(command, "doctor");
    expect(output).toMatch(
      /^fail {2}libtorch {4}the native addon is not built\n +-> The native addon is not built for this machine: .* Run: npx reroll setup$/m,
    );
    expect(output).toMatch(/^ok {4}Node/);
    expect(status).toBe(1);
  });

  test("a run is explained, and one that needs a package which is not there names it", () => {
    expect(run(command, "train", "run.ts", "--explain").status).toBe(0);
    write("cheetah.ts", 'export default { kind: "control", env: { type: "half-cheetah" } };\n');
    expect(run(command, "train", "cheetah.ts", "--explain")).toEqual({
      status: 2,
      output:
        'error: env.type "half-cheetah" needs the package @mujoco/mujoco, which is not installed. Run: npm install @mujoco/mujoco@3.14.0\n',
    });
  });

  test("init adds to the project that npm has made, by where the package came from, and can be repeated in a new folder", () => {
    const { output } = run(command, "init", "--task", "agent", "--model", "nano");
    expect(output).toContain("already has run.ts");
    expect(scaffold).toContain("Next: cd first && npm install && npx reroll train run.ts");
    expect(JSON.parse(readFileSync(join(project, "first/package.json"), "utf8")).dependencies).toEqual({
      reroll: "file:../reroll-0.1.0.tgz",
    });
  });
});

/** What a user of a prebuilt addon has: a package of its own for the platform, which the first command takes up by itself. */
describePacked(`with the package of prebuilt addons${reason}`, () => {
  const platform = join(project, "node_modules/@reroll", `${process.platform}-${process.arch}`);
  beforeAll(() => {
    mkdirSync(join(platform, "one"), { recursive: true });
    writeFileSync(join(platform, "package.json"), "{}");
    for (const file of ["reroll.node", "environment.node", "signals.node", "libtorch.json"]) {
      copyFileSync(join("build/native", file), join(platform, "one", file));
    }
  });
  afterAll(() => rmSync(platform, { recursive: true }));

  test("a scaffold trains, with the addon in the cache and nothing compiled", () => {
    const few = [
      "loop.steps=2",
      "training.minibatch=0",
      "warmStart.steps=1",
      "rollout.groupsPerStep=2",
      "validation=null",
    ];
    const folder = join(project, "first");
    const { status, output } = runIn(folder, command, "train", "run.ts", ...few.flatMap((set) => ["--set", set]));
    expect(output).toContain("prebuilt, from");
    expect(output).toContain("steps     2/2");
    expect(status).toBe(0);
    expect(existsSync(join(folder, "runs/first/metrics.jsonl"))).toBe(true);
    rmSync(cache, { recursive: true });
  });
});

describePacked(`with the addon${reason}`, () => {
  beforeAll(() => {
    mkdirSync(join(installed, "build"), { recursive: true });
    symlinkSync(resolve("build/native"), join(installed, "build/native"));
  });

  test("tensors compute", () => {
    write("sum.mjs", 'import { tensor } from "reroll/torch";\nconsole.log(tensor([1, 2]).sum().item());\n');
    expect(run("sum.mjs")).toEqual({ status: 0, output: "3\n" });
  });

  test("a run file outside of the project gets every entry point of the copy that runs it", () => {
    const elsewhere = mkdtempSync(join(tmpdir(), "reroll-elsewhere-"));
    const resolved = modules.map((name) => `console.error(import.meta.resolve("${name}"));`).join("\n");
    writeFileSync(
      join(elsewhere, "run.ts"),
      `${RUN_FILE}${modules.map((name) => `import "${name}";`).join("\n")}\n${resolved}\n`,
    );
    const { status, output } = run(command, "train", join(elsewhere, "run.ts"), "--explain");
    rmSync(elsewhere, { recursive: true });
    expect(output).toContain("rollout.groupsPerStep");
    expect(status).toBe(0);
    const folders = output.split("\n").filter((line) => line.startsWith("file:"));
    expect(folders).toEqual(
      entryPoints.map(({ source }) => `file://${installed}/${source.replace(/^src(.*)\.ts$/, "dist$1.js")}`),
    );
  });

  test("a run file that imports something else of reroll hears what there is", () => {
    write("wrong.ts", 'import "reroll/tracking";\nexport default {};\n');
    const { status, output } = run(command, "train", "wrong.ts");
    expect(status).toBe(2);
    expect(output).toContain(`reroll/tracking is no entry point of reroll. There are: ${modules.join(", ")}`);
  });
});

const RUN_FILE = `
import { defineRun, type EnvFactory, Random, type TextEnv } from "reroll";

class Coin implements TextEnv {
  readonly #side: string;
  constructor(seed: number) {
    this.#side = new Random(seed).integer(2) === 0 ? "heads" : "tails";
  }
  start() {
    return { instructions: [], observation: { messages: [{ role: "user" as const, content: "Heads or tails?" }], stateKey: "" } };
  }
  step({ text }: { readonly text: string }) {
    const reward = Number(text === this.#side);
    return { kind: "terminated" as const, reward, metrics: { success: reward }, observation: { messages: [], stateKey: "" } };
  }
}

export const coin: EnvFactory = {
  makePrompt: (seed) => ({ id: String(seed), domain: "coin", seed, messages: [], truth: null, extra: {} }),
  makeEnv: ({ seed }) => new Coin(seed),
};

export default defineRun({
  model: { preset: "nano" },
  envs: { coin: { type: "custom", ...coin } },
  rollout: { groupsPerStep: 4, groupSize: 2, sampling: { maxTokens: 2 } },
  training: { optimizer: { lr: 1e-3 } },
});
`;

/** Packs the checkout and unpacks it into the project; what it depends on is linked from the checkout. */
function install(): void {
  const [{ filename }] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", project], { encoding: "utf8" }),
  );
  mkdirSync(installed, { recursive: true });
  execFileSync("tar", ["-xzf", join(project, filename), "-C", installed, "--strip-components=1"]);
  const { dependencies } = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  for (const name of Object.keys(dependencies)) {
    mkdirSync(dirname(join(project, "node_modules", name)), { recursive: true });
    symlinkSync(resolve("node_modules", name), join(project, "node_modules", name));
  }
  write("package.json", JSON.stringify({ type: "module", dependencies: { reroll: `file:${filename}` } }));
}

function write(name: string, text: string): void {
  writeFileSync(join(project, name), text);
}

interface Ran {
  readonly status: number | null;
  readonly output: string;
}

function run(...words: readonly string[]): Ran {
  return runIn(project, ...words);
}

function runIn(cwd: string, ...words: readonly string[]): Ran {
  const env = { ...process.env, REROLL_CACHE: cache };
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { cwd, env, encoding: "utf8" });
  return { status, output: stdout + stderr };
}

/** What the compiler finds in the project's files and, as a Node project sees them, in our declarations; other packages' are theirs. */
function diagnose(files: readonly string[], resolution: "nodenext" | "bundler"): readonly string[] {
  const isNode = resolution === "nodenext";
  const program = ts.createProgram(
    files.map((file) => join(project, file)),
    {
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      verbatimModuleSyntax: true,
      declaration: true,
      noEmit: true,
      allowImportingTsExtensions: true,
      skipLibCheck: false,
      target: ts.ScriptTarget.ES2022,
      module: isNode ? ts.ModuleKind.NodeNext : ts.ModuleKind.ESNext,
      moduleResolution: isNode ? ts.ModuleResolutionKind.NodeNext : ts.ModuleResolutionKind.Bundler,
      types: ["node"],
      typeRoots: [join(project, "node_modules/@types")],
    },
  );
  const own = program
    .getSourceFiles()
    .filter(({ fileName, isDeclarationFile }) => fileName.startsWith(`${project}/`) && (isNode || !isDeclarationFile));
  const found = own.flatMap((file) => [
    ...program.getSyntacticDiagnostics(file),
    ...program.getSemanticDiagnostics(file),
    ...(file.isDeclarationFile ? [] : program.getDeclarationDiagnostics(file)),
  ]);
  return found.map(
    ({ file, messageText }) =>
      `${file?.fileName.slice(project.length + 1)}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`,
  );
}
