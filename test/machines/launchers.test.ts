/** What is handed to schedulers, word for word, and the conversation with them; the schedulers themselves are in test/clusters. */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { callReroll } from "../cli/call-reroll.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-jobs-"));
afterAll(() => rmSync(folder, { recursive: true }));
const runFile = "My Run.json";
const run = {
  name: "Lake_no.1",
  model: { preset: "nano" },
  envs: { lake: { type: "frozen-lake", size: 3 } },
  rollout: { groupsPerStep: 4, groupSize: 4, contextLength: 256, sampling: { maxTokens: 16 } },
  training: { optimizer: { lr: 0.001 } },
};
writeFileSync(join(folder, runFile), JSON.stringify(run));

const before = process.cwd();
beforeEach(() => {
  vi.stubEnv("REROLL_HOME", folder);
  process.chdir(folder);
});
afterEach(() => {
  vi.unstubAllEnvs();
  process.chdir(before);
});

const submit = (...words: string[]) => callReroll("submit", runFile, ...words);

/** Without what differs from machine to machine. */
function plain(printed: string): string {
  const places = [
    [fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url)), "/opt/reroll/dist/cli/main.js"],
    [process.execPath, "/usr/bin/node"],
    [folder, "/shared"],
  ] as const;
  return places.reduce((rest, [path, name]) => rest.replaceAll(path, name), printed);
}

test.each([
  [
    "slurm",
    "job.sbatch",
    ["--gpus", "8", "--option", "partition=gpu", "--option", "time=24:00:00", "--option", "exclusive="],
  ],
  [
    "kubernetes",
    "jobset.yaml",
    ["--gpus", "8", "--option", "image=registry.example/reroll:0.1.0", "--option", "claim=work"],
  ],
  ["ray", "driver.py", ["--set", "loop.steps=5"]],
])("%s gets this", async (scheduler, file, words) => {
  const { code, stdout, stderr } = await submit("--to", scheduler, "--nodes", "2", "--dry-run", ...words);
  expect(code, stderr).toBe(0);
  await expect(plain(stdout)).toMatchFileSnapshot(`expected/${file}`);
  expect(existsSync(join(folder, "jobs"))).toBe(false);
});

test("words that a scheduler would read otherwise reach the run as they are, or are refused", async () => {
  const kubernetes = ["--option", "image=a", "--option", "claim=b", "--set", 'model.path="a$$b $(POD_IP)"'];
  const pods = await submit("--to", "kubernetes", "--nodes", "2", "--dry-run", ...kubernetes);
  expect(pods.stdout).toContain("'model.path=\"a$$$$b $$(POD_IP)\"'");
  for (const comment of ["x\necho y", "a\\b"]) {
    const { code, stderr } = await submit(
      "--to",
      "slurm",
      "--nodes",
      "2",
      "--dry-run",
      "--option",
      `comment=${comment}`,
    );
    expect([code, stderr]).toEqual([2, expect.stringContaining("--option comment must be without line breaks")]);
  }
});

test("certificates and the time to wait for each other are passed on to every process, files as paths that the machines share", async () => {
  const files = { "--tls-cert": "cert.pem", "--tls-key": "key.pem", "--tls-ca": "ca.pem" };
  const words = Object.entries(files).flatMap(([flag, file]) => [flag, join(folder, file)]);
  const to = (scheduler: string, ...more: string[]) => submit("--to", scheduler, "--nodes", "2", "--dry-run", ...more);
  const missing = await to("slurm", ...words);
  expect(missing.code).toBe(2);
  expect(missing.stderr).toContain("--tls-cert cert.pem does not exist. It takes a PEM file");
  for (const file of Object.values(files)) writeFileSync(join(folder, file), "PEM");
  const passed = "--restarts 5 --tls-cert cert.pem --tls-key key.pem --tls-ca ca.pem";
  expect((await to("slurm", ...words)).stdout).toContain(passed);
  expect((await to("slurm", ...words, "--join-timeout", "1800")).stdout).toContain(`${passed} --join-timeout 1800`);
  expect((await to("ray", ...words)).stdout).toContain(passed.replaceAll(" ", '","'));
  const pods = ["--option", "image=a", "--option", "claim=b"];
  expect((await to("kubernetes", ...pods, ...words)).stdout).toContain(passed);
  const outside = await to("kubernetes", ...pods, ...words, "--tls-ca", "/etc/hostname");
  expect(outside.stderr).toContain("A file that the run is given must lie in the folder that it is submitted from");
  expect((await to("slurm", "--tls-cert", "cert.pem")).stderr).toContain("--tls-cert and --tls-key go together");
});

test("options that a scheduler does not have, and run files that do not fit, are refused before anything is submitted", async () => {
  const kubernetes = await submit("--to", "kubernetes", "--option", "image=a");
  expect(kubernetes).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--option claim is missing. It must be a text."),
  });
  const unknown = await submit("--to", "ray", "--option", "adress=http://a");
  expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining("address") });
  const ranks = await submit("--to", "slurm", "--nodes", "2", "--set", "training.ranks=3");
  expect(ranks).toMatchObject({ code: 2, stderr: expect.stringContaining("the run has 2 processes") });
  vi.stubEnv("PATH", folder);
  expect(await submit("--to", "slurm")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("sbatch is not here."),
  });
  expect(existsSync(join(folder, "jobs/lake-no-1"))).toBe(false);
  expect(await callReroll("logs", "other")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("None was submitted from here."),
  });
});

/** Programs that answer what the files of a folder say, and keep what they were asked. */
function fakePrograms(names: readonly string[]): string {
  const bin = mkdtempSync(join(folder, "bin-"));
  for (const name of names) {
    writeFileSync(
      join(bin, name),
      `#!/bin/sh\necho "${name} $@" >> ${bin}/asked\n[ -e ${bin}/${name}.answer ] && /bin/cat ${bin}/${name}.answer\n[ "$3" = "-" ] || [ "$5" = "-" ] && /bin/cat >> ${bin}/given\n[ -e ${bin}/${name}.error ] && [ "$1" = create ] && /bin/cat ${bin}/${name}.error >&2 && exit 1\nexit 0\n`,
    );
    chmodSync(join(bin, name), 0o755);
  }
  vi.stubEnv("PATH", bin);
  return bin;
}

test("a job of Slurm is submitted, listed, read and stopped", async () => {
  const bin = fakePrograms(["sbatch", "squeue", "scancel"]);
  writeFileSync(join(bin, "sbatch.answer"), "4711;cluster\n");
  expect(await submit("--to", "slurm", "--nodes", "2")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("submitted to slurm as 4711"),
  });
  const job = join(folder, "jobs/lake-no-1");
  expect(statSync(join(job, "token")).mode & 0o777).toBe(0o600);
  expect(readFileSync(join(job, "job.sbatch"), "utf8")).not.toContain(readFileSync(join(job, "token"), "utf8").trim());
  const status = async () => (await callReroll("status")).stdout.trim().split(/\s+/).at(-1);
  writeFileSync(join(bin, "squeue.answer"), "PENDING\n");
  expect(await status()).toBe("waiting");
  writeFileSync(join(bin, "squeue.answer"), "RUNNING\n");
  expect(await status()).toBe("running");
  writeFileSync(join(job, "log.txt"), "step 1/2\n");
  expect((await callReroll("logs", "lake-no-1")).stdout).toBe("step 1/2\n");
  // A scheduler that does not answer says nothing about the job; one that has forgotten it says that.
  const failing = (words: string) => `#!/bin/sh\necho "slurm_load_jobs error: ${words}" >&2\nexit 1\n`;
  writeFileSync(join(bin, "squeue"), failing("Unable to contact slurm controller (connect failure)"));
  const silent = (await callReroll("status")).stdout;
  expect(silent).toContain(
    "? Slurm did not say how the job is doing, which may well run: squeue --noheader --jobs 4711",
  );
  expect(silent).toContain("Unable to contact slurm controller (connect failure)");
  writeFileSync(join(bin, "squeue"), failing("Invalid job id specified"));
  expect(await status()).toBe("stopped");
  writeFileSync(join(job, "exit-code"), "1\n");
  expect(await status()).toBe("failed");
  writeFileSync(join(job, "exit-code"), "0\n");
  expect(await status()).toBe("finished");
  expect((await callReroll("stop", "lake-no-1")).code).toBe(0);
  expect(readFileSync(join(bin, "asked"), "utf8")).toContain("scancel 4711");
  rmSync(join(folder, "jobs"), { recursive: true });
});

/** Runs a script whose programs are fakes: `program` fails with one code after the other, and then ends well. Resolves with what was printed. */
function runWithFake(script: string, program: string, codes: readonly number[]): { code: number; printed: string } {
  const bin = mkdtempSync(join(folder, "fakes-"));
  writeFileSync(join(bin, "codes"), `${[...codes, 0].join("\n")}\n`);
  const lines = [
    "#!/bin/sh",
    `cd ${bin}`,
    "cat > /dev/null",
    'echo "life $(wc -l < codes)"',
    "code=$(head -n 1 codes)",
  ];
  writeFileSync(join(bin, program), [...lines, "sed -i 1d codes", "exit $code", ""].join("\n"), { mode: 0o755 });
  const file = join(bin, "script");
  writeFileSync(file, script);
  const env = { ...process.env, PATH: `${bin}:/usr/bin:/bin`, SLURM_JOB_ID: "7" };
  const { status, stdout } = spawnSync("bash", [file], { env, encoding: "utf8" });
  return { code: status ?? -1, printed: stdout };
}

test("a step of Slurm that was killed is started again five times in a row, one that has failed or was stopped is not", async () => {
  const bin = fakePrograms(["sbatch"]);
  writeFileSync(join(bin, "sbatch.answer"), "4711\n");
  await submit("--to", "slurm", "--nodes", "2");
  const job = join(folder, "jobs/lake-no-1");
  const lives = (codes: readonly number[]) => {
    const { code, printed } = runWithFake(readFileSync(join(job, "job.sbatch"), "utf8"), "srun", codes);
    return [code, printed.match(/life/g)?.length, readFileSync(join(job, "exit-code"), "utf8").trim()];
  };
  expect(lives([])).toEqual([0, 1, "0"]);
  expect(lives([137, 143])).toEqual([0, 3, "0"]);
  expect(lives([1])).toEqual([1, 1, "1"]);
  expect(lives([2])).toEqual([2, 1, "2"]);
  expect(lives([130])).toEqual([130, 1, "130"]);
  expect(lives([137, 137, 137, 137, 137, 137])).toEqual([137, 6, "137"]);
  rmSync(join(folder, "jobs"), { recursive: true });
});

const hasPython = spawnSync("python3", ["--version"]).status === 0;

test.skipIf(!hasPython)(
  "the driver of a job of Ray starts all ranks again when one was killed, and not when one has failed",
  async () => {
    const driver = (await submit("--to", "ray", "--nodes", "2", "--dry-run")).stdout;
    const drive = (rank: string) => {
      const place = mkdtempSync(join(folder, "driver-"));
      const rankFile = join(place, "rank.sh");
      writeFileSync(rankFile, `echo "$RANK of $WORLD_SIZE for $REROLL_JOB" >> ${place}/said\n${rank}\n`);
      const words = driver
        .replace(/^WORDS = .*$/m, `WORDS = ["sh", "${rankFile}"]`)
        .replace("time.sleep(1)", "time.sleep(0.01)");
      writeFileSync(join(place, "driver.py"), words);
      const env = { ...process.env, PYTHONPATH: fileURLToPath(new URL("fake-ray", import.meta.url)) };
      const run = spawnSync("python3", ["-B", join(place, "driver.py")], { env, encoding: "utf8" });
      return {
        code: run.status,
        said: readFileSync(join(place, "said"), "utf8").split("\n").length - 1,
        stderr: run.stderr,
      };
    };
    // The first life of rank 1 is killed.
    const killed = drive('[ $RANK = 1 ] && [ ! -e "$0.killed" ] && touch "$0.killed" && kill -9 $$\nexit 0');
    expect(killed, killed.stderr).toMatchObject({ code: 0, said: 4 });
    expect(killed.stderr).toContain("Starting all of them again.");
    expect(drive("exit 2")).toMatchObject({ code: 2, said: 2, stderr: "" });
    // Not as a driver that was killed, which the shell around it starts again.
    expect(drive("kill -9 $$")).toMatchObject({ code: 1, said: 12 });
    expect(drive("exit 137")).toMatchObject({ code: 1, said: 2 });
  },
  120_000,
);

test("a job of Kubernetes is a secret and a job set", async () => {
  const bin = fakePrograms(["kubectl"]);
  const options = ["--option", "image=a", "--option", "claim=work", "--option", "namespace=lab"];
  expect((await submit("--to", "kubernetes", "--nodes", "2", ...options)).code).toBe(0);
  const given = readFileSync(join(bin, "given"), "utf8");
  expect(given).toMatch(/kind: Secret\nmetadata:\n {2}name: lake-no-1-token\nstringData:\n {2}token: [0-9a-f]{32}\n/);
  expect(given).toContain("kind: JobSet");
  const answers = {
    waiting: { status: {} },
    running: { status: { replicatedJobsStatus: [{ name: "node", active: 1, ready: 1 }] } },
    finished: { status: { terminalState: "Completed" } },
    failed: { status: { terminalState: "Failed" } },
  };
  for (const [state, answer] of Object.entries(answers)) {
    writeFileSync(join(bin, "kubectl.answer"), JSON.stringify(answer));
    expect((await callReroll("status")).stdout.trim().split(/\s+/).at(-1)).toBe(state);
  }
  await callReroll("logs", "lake-no-1");
  await callReroll("stop", "lake-no-1");
  const asked = readFileSync(join(bin, "asked"), "utf8");
  expect(asked).toContain("--selector jobset.sigs.k8s.io/jobset-name=lake-no-1 --prefix --ignore-errors");
  expect(asked).toContain("kubectl delete --namespace lab --ignore-not-found jobset/lake-no-1 secret/lake-no-1-token");
  rmSync(join(folder, "jobs"), { recursive: true });
});

test("a job set whose pods wait for a node is active, and the job is waiting", async () => {
  const bin = fakePrograms(["kubectl"]);
  await submit("--to", "kubernetes", "--nodes", "2", "--option", "image=a", "--option", "claim=work");
  const status = { replicatedJobsStatus: [{ name: "node", active: 1, failed: 0, ready: 0, succeeded: 0 }] };
  writeFileSync(join(bin, "kubectl.answer"), JSON.stringify({ status }));
  expect((await callReroll("status")).stdout).toMatch(/waiting\n$/);
  rmSync(join(folder, "jobs"), { recursive: true });
});

test("a second job of one name has a job set of its own, and one of others is left alone", async () => {
  const bin = fakePrograms(["kubectl"]);
  const words = ["--to", "kubernetes", "--option", "image=a", "--option", "claim=work"];
  await submit(...words);
  expect((await submit(...words)).stdout).toContain("submitted to kubernetes as lake-no-1-2\n");
  const given = readFileSync(join(bin, "given"), "utf8");
  expect(given).toContain("kind: JobSet\nmetadata:\n  name: lake-no-1-2\n");
  expect(given).toContain("value: lake-no-1-2-node-0-0.lake-no-1-2\n");
  const reason = 'error when creating "STDIN": secrets "lake-no-1-3-token" already exists';
  writeFileSync(join(bin, "kubectl.error"), `Error from server (AlreadyExists): ${reason}\n`);
  const { code, stderr } = await submit(...words);
  expect(code).toBe(1);
  expect(stderr).toContain("There is a job lake-no-1-3 in the namespace default already");
  expect(existsSync(join(folder, "jobs/lake-no-1-3"))).toBe(false);
  rmSync(join(folder, "jobs"), { recursive: true });
});

test("a job of Ray goes through its Jobs API", async () => {
  const asked: string[] = [];
  let entrypoint = "";
  const server = createServer(async (request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const body = await text(request);
    if (request.method === "POST" && request.url === "/api/jobs/") entrypoint = JSON.parse(body).entrypoint;
    const answers: Record<string, object> = {
      "POST /api/jobs/": { submission_id: "raysubmit_1" },
      "GET /api/jobs/raysubmit_1": { status: "RUNNING", entrypoint },
      "GET /api/jobs/raysubmit_1/logs": { logs: "step 1/2\n" },
      "POST /api/jobs/raysubmit_1/stop": { stopped: true },
    };
    response.end(JSON.stringify(answers[asked.at(-1)!] ?? {}));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { readonly port: number };
  const address = `address=http://127.0.0.1:${port}`;
  expect((await submit("--to", "ray", "--nodes", "2", "--option", address)).code).toBe(0);
  expect(entrypoint).toMatch(/\npython3 - <<'DRIVER'\nimport os[\s\S]*\nDRIVER\n/);
  expect((await callReroll("status")).stdout).toMatch(/^lake-no-1 {2}ray raysubmit_1 .* running\n$/);
  expect((await callReroll("logs", "lake-no-1")).stdout).toBe("step 1/2\n");
  expect((await callReroll("stop", "lake-no-1")).code).toBe(0);
  await new Promise((resolve) => server.close(resolve));
  expect((await callReroll("status")).stdout).toContain(`Ray cannot be reached at http://127.0.0.1:${port}`);
  // A driver that is killed is started again; one that ends by itself is not.
  expect(runWithFake(entrypoint, "python3", [137, 137])).toMatchObject({ code: 0 });
  expect(runWithFake(entrypoint, "python3", [137, 1])).toMatchObject({ code: 1 });
  expect(runWithFake(entrypoint, "python3", [137, 137, 137, 137, 137, 137])).toMatchObject({ code: 137 });
  if (hasPython) expect(livesOf(entrypoint)).toEqual({ code: 1, lives: 6 });
  mkdirSync(join(folder, "jobs"), { recursive: true });
}, 120_000);

/** How often rank 0 of a job of Ray lives where every life is killed, the shell around the driver included. */
function livesOf(entrypoint: string): { readonly code: number | null; readonly lives: number } {
  const place = mkdtempSync(join(folder, "lives-"));
  writeFileSync(join(place, "rank.sh"), `[ $RANK = 0 ] && echo life >> ${place}/lives\nkill -9 $$\n`);
  const script = entrypoint
    .replace(/^WORDS = .*$/m, `WORDS = ["sh", "${place}/rank.sh"]`)
    .replace("time.sleep(1)", "time.sleep(0.01)");
  const env = { ...process.env, PYTHONPATH: fileURLToPath(new URL("fake-ray", import.meta.url)) };
  const { status } = spawnSync("bash", ["-c", script], { env: { ...env, PYTHONDONTWRITEBYTECODE: "1" } });
  return { code: status, lives: readFileSync(join(place, "lives"), "utf8").split("\n").length - 1 };
}
