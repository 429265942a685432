/** What a pod of a job of Kubernetes runs, with a stand-in for the program in it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, expect, test } from "vitest";
import { parse } from "yaml";
import { callReroll } from "../cli/call-reroll.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-pod-"));
const before = process.cwd();
process.chdir(folder);
afterAll(() => {
  process.chdir(before);
  rmSync(folder, { recursive: true });
});
const run = {
  name: "lake",
  model: { preset: "nano" },
  envs: { lake: { type: "frozen-lake", size: 3 } },
  rollout: { groupsPerStep: 4, groupSize: 4, contextLength: 256, sampling: { maxTokens: 16 } },
  training: { optimizer: { lr: 0.001 } },
};
writeFileSync(join(folder, "run.json"), JSON.stringify(run));

/** The command of a pod, as its job set says it. */
async function commandOf(gpus: number): Promise<readonly string[]> {
  const words = ["--nodes", "2", "--gpus", `${gpus}`, "--option", "image=a", "--option", "claim=work", "--dry-run"];
  const { stdout } = await callReroll("submit", "run.json", "--to", "kubernetes", ...words);
  return parse(stdout).spec.replicatedJobs[0].template.spec.template.spec.containers[0].command;
}

/** A pod in which `reroll` is this script. */
async function startPod(gpus: number, index: number, script: string) {
  writeFileSync(join(folder, "reroll"), `#!/bin/sh\n${script}\n`);
  chmodSync(join(folder, "reroll"), 0o755);
  const [program, ...words] = await commandOf(gpus);
  const env = {
    PATH: `${folder}:/usr/bin:/bin`,
    ...{ MASTER_ADDR: "lake-node-0-0.lake", POD_IP: `10.0.0.${index}`, JOB_COMPLETION_INDEX: `${index}` },
  };
  return spawn(program!, words, { env, stdio: ["ignore", "pipe", "inherit"] });
}

test.each([
  [0, 0, ["0 0 10.0.0.0"]],
  [0, 1, ["1 0 lake-node-0-0.lake"]],
  [2, 0, ["0 0 10.0.0.0", "1 1 10.0.0.0"]],
  [2, 1, ["2 0 lake-node-0-0.lake", "3 1 lake-node-0-0.lake"]],
])(
  "with %i GPUs, pod %i starts its ranks; the controller listens at the address of its pod",
  async (gpus, index, ranks) => {
    const pod = await startPod(gpus, index, 'echo "$RANK $LOCAL_RANK $MASTER_ADDR"');
    const [printed] = await Promise.all([text(pod.stdout!), once(pod, "exit")]);
    expect(printed.trim().split("\n").sort()).toEqual(ranks);
  },
);

test("a pod that is stopped stops its processes, and ends after them", async () => {
  // Each says that it is there, and once more when it has been asked to stop; it takes a while to.
  const pod = await startPod(
    2,
    0,
    'trap "sleep 0.2; echo stopped; exit 0" TERM\necho there\nwhile :; do sleep 0.05; done',
  );
  let printed = "";
  pod.stdout!.on("data", (bytes: Buffer) => {
    printed += bytes;
    if (printed === "there\nthere\n") pod.kill("SIGTERM");
  });
  const [exitCode] = await once(pod, "close");
  expect(exitCode).toBe(143);
  expect(printed).toBe("there\nthere\nstopped\nstopped\n");
});

test("a pod that is stopped while it starts its processes stops all of them", async () => {
  // The first process says so at once, before the shell has begun the second.
  const pod = await startPod(2, 0, "[ $LOCAL_RANK = 1 ] || kill -TERM $PPID\nwhile :; do sleep 0.05; done");
  // No output is left open: all have ended.
  const [, [exitCode]] = await Promise.all([text(pod.stdout!), once(pod, "exit")]);
  expect(exitCode).toBe(143);
});
