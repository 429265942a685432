/** Completion as a shell does it: the printed script is loaded, and asked what may follow some words. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { callReroll } from "./call-reroll.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-completion-"));
const scripts: Record<string, string> = {};

beforeAll(async () => {
  mkdirSync(join(folder, "runs/first"), { recursive: true });
  writeFileSync(join(folder, "run.ts"), "");
  for (const shell of ["bash", "zsh", "fish"]) {
    const { code, stdout } = await callReroll("completion", shell);
    expect(code).toBe(0);
    scripts[shell] = join(folder, `.complete.${shell}`);
    writeFileSync(scripts[shell], stdout);
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

/** What bash offers for the last of these words. */
function offered(...words: readonly string[]): string[] {
  const quoted = words.map((word) => `'${word}'`).join(" ");
  const script = `source ${scripts.bash}; COMP_WORDS=(reroll ${quoted}); COMP_CWORD=${words.length}; _reroll; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync("bash", ["-c", script], { cwd: folder, encoding: "utf8" }).trim().split("\n");
}

describe("bash", () => {
  test("completes commands, flags, their values, files and runs", () => {
    expect(offered("ev")).toEqual(["eval"]);
    expect(offered("train", "--resu")).toEqual(["--resume", "--resume-from"]);
    expect(offered("eval", "x", "--benchmark", "m")).toEqual(["math-500", "mbpp"]);
    expect(offered("train", "ru")).toEqual(expect.arrayContaining(["run.ts"]));
    expect(offered("generate", "runs/f")).toContain("runs/first");
    expect(offered("runs", "com")).toEqual(["compare"]);
    expect(offered("completion", "fi")).toEqual(["fish"]);
  });
});

const isThere = (shell: string) => spawnSync(shell, ["--version"]).status === 0;

test.skipIf(!isThere("fish") && "fish is not installed")("fish completes commands, flags and values", () => {
  const offers = (line: string) =>
    execFileSync("fish", ["-c", `source ${scripts.fish}; complete -C '${line}'`], { cwd: folder, encoding: "utf8" })
      .trim()
      .split("\n")
      .map((offer) => offer.split("\t")[0]);
  expect(offers("reroll ev")).toEqual(["eval"]);
  expect(offers("reroll train --resu").sort()).toEqual(["--resume", "--resume-from"]);
  expect(offers("reroll eval x --benchmark m")).toEqual(["math-500", "mbpp"]);
  expect(offers("reroll generate runs/f")).toContain("runs/first/");
});

test.skipIf(!isThere("zsh") && "zsh is not installed")("zsh takes the script and knows whom it completes", () => {
  const load = `autoload -U compinit; compinit -u -D; source ${scripts.zsh}; print -r -- $_comps[reroll]`;
  expect(spawnSync("zsh", ["-fc", load], { encoding: "utf8" })).toMatchObject({ stdout: "_reroll\n", stderr: "" });
});

test("a shell that is not known is refused with those that are", async () => {
  const { code, stderr } = await callReroll("completion", "tcsh");
  expect(code).toBe(2);
  expect(stderr).toContain("Allowed choices are bash, zsh, fish");
});
