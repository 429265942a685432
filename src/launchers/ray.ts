/**
 * Ray: a job through the Jobs API. Its driver, a page of Python that is sent along, reserves a bundle on each of several nodes and
 * starts reroll in every one, so that placement and logs are Ray's. The driver starts again what was killed, and is started again itself.
 */
import http from "node:http";
import https from "node:https";
import { text } from "node:stream/consumers";
import { z } from "zod";
import { parseOptions } from "../errors/parse-options.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { type Job, type JobState, type Launcher, numProcesses } from "./launcher.ts";

const optionsSchema = z.strictObject({
  address: z
    .url({ protocol: /^https?$/ })
    .default("http://127.0.0.1:8265")
    .describe("Address of the dashboard of Ray."),
  cpus: z.coerce.number().int().positive().default(1).describe("Cores to reserve on each node."),
  timeout: z.coerce.number().int().positive().default(600).describe("Seconds to wait for nodes."),
});

export const ray: Launcher = {
  describe: driverOf,
  submit: async (job) => {
    const body = { entrypoint: entrypointOf(job), metadata: { name: job.name } };
    const { submission_id: id } = submitted.parse(await ask(job, "POST", "", body));
    return id;
  },
  stateOf: async (job) => {
    const answer = await ask(job, "GET", job.id);
    return answer === null ? "unknown" : STATES[described.parse(answer).status];
  },
  logsOf: async (job) => logged.parse((await ask(job, "GET", `${job.id}/logs`)) ?? { logs: "" }).logs,
  stop: async (job) => void (await ask(job, "POST", `${job.id}/stop`)),
};

const submitted = z.looseObject({ submission_id: z.string() });
const described = z.looseObject({ status: z.enum(["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED"]) });
const logged = z.looseObject({
  logs: z
    .string()
    .nullish()
    .transform((text) => text ?? ""),
});

const STATES: Readonly<Record<z.output<typeof described>["status"], JobState>> = {
  PENDING: "waiting",
  RUNNING: "running",
  SUCCEEDED: "finished",
  FAILED: "failed",
  STOPPED: "stopped",
};

const TIMEOUT_MS = 60_000;

/** null for a job that Ray does not know. */
async function ask(
  { options }: Pick<Job, "options">,
  method: "GET" | "POST",
  path: string,
  body?: object,
): Promise<unknown> {
  const { address } = parseOptions(optionsSchema, options, "--option");
  const url = new URL(`${address.replace(/\/$/, "")}/api/jobs/${path}`);
  const { status, answer } = await exchange(url, method, body === undefined ? "" : JSON.stringify(body)).catch(
    (cause: Error) => {
      throw failed(
        `Ray cannot be reached at ${address}: ${cause.message}. Is its dashboard running, and --option address right?`,
      );
    },
  );
  if (status === 404) return null;
  if (status >= 300) throw failed(`Ray refused ${method} ${url.href} with ${status}: ${answer.slice(0, 500)}`);
  return answer === "" ? {} : JSON.parse(answer);
}

/** Not with `fetch`, which marks its requests as those of a browser: Ray refuses them. */
function exchange(
  url: URL,
  method: string,
  body: string,
): Promise<{ readonly status: number; readonly answer: string }> {
  const { request } = url.protocol === "https:" ? https : http;
  const token = process.env.RAY_AUTH_TOKEN;
  const headers = {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    ...(token && { authorization: `Bearer ${token}` }),
  };
  return new Promise((resolve, reject) => {
    const asked = request(url, { method, headers, timeout: TIMEOUT_MS }, (response) => {
      text(response).then((answer) => resolve({ status: response.statusCode ?? 0, answer }), reject);
    });
    asked.once("timeout", () => asked.destroy(new Error(`no answer for ${TIMEOUT_MS / 1000} seconds`)));
    asked.once("error", reject);
    asked.end(body);
  });
}

function failed(message: string): RerollError {
  return new RerollError("SCHEDULER_FAILED", message);
}

/**
 * The token is made where it is needed, so that nobody who lists jobs sees it. Literals of JSON are literals of Python here.
 *
 * A process that was killed and a node that was lost end the others too, and all begin again on nodes that are there. A process that ends by
 * itself has tried what it could.
 */
function driverOf(job: Job): string {
  const { cpus, timeout } = parseOptions(optionsSchema, job.options, "--option");
  const perNode = Math.max(1, job.gpusPerNode);
  const variables = { REROLL_JOB: `ray ${job.folder}`, ...(job.home !== undefined && { REROLL_HOME: job.home }) };
  return `import os, secrets, socket, subprocess, sys, time
import ray
from ray.util import get_node_ip_address
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

WORDS = ${JSON.stringify([...job.program, "train", job.runFile, ...job.words])}
FOLDER = ${JSON.stringify(job.workingFolder)}
VARIABLES = ${JSON.stringify(variables)}
NODES, PER_NODE, CPUS, GPUS = ${job.numNodes}, ${perNode}, ${cpus}, ${job.gpusPerNode}
KILLED = -9


@ray.remote(max_restarts=0)
class Node:
    def place(self):
        with socket.socket() as probe:
            probe.bind(("", 0))
            return get_node_ip_address(), probe.getsockname()[1]

    def run(self, node, launch):
        processes = []
        for local in range(PER_NODE):
            ranks = {"RANK": node * PER_NODE + local, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": PER_NODE}
            variables = {name: str(value) for name, value in {**VARIABLES, **launch, **ranks}.items()}
            processes.append(subprocess.Popen(WORDS, cwd=FOLDER, env={**os.environ, **variables}))
        while True:
            codes = [process.poll() for process in processes]
            if any(codes) or None not in codes:
                return next((code for code in codes if code), 0)
            time.sleep(1)


def run_all():
    """Runs every rank, until all have ended well or one has not: its exit code, below zero where it was killed or its node is lost."""
    group = placement_group([{"CPU": CPUS, **({"GPU": GPUS} if GPUS else {})}] * NODES, strategy="STRICT_SPREAD")
    nodes = []
    try:
        ray.get(group.ready(), timeout=${timeout})
        nodes = [
            Node.options(
                num_cpus=CPUS,
                num_gpus=GPUS,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index),
            ).remote()
            for index in range(NODES)
        ]
        host, port = ray.get(nodes[0].place.remote())
        token = secrets.token_hex(16)
        launch = {"MASTER_ADDR": host, "MASTER_PORT": port, "WORLD_SIZE": ${numProcesses(job)}, "REROLL_TOKEN": token}
        running = [node.run.remote(index, launch) for index, node in enumerate(nodes)]
        while running:
            ended, running = ray.wait(running)
            code = ray.get(ended[0])
            if code != 0:
                return code
        return 0
    except ray.exceptions.RayActorError as error:
        print(error, file=sys.stderr)
        return KILLED
    finally:
        # Processes end with the actor that started them.
        for node in nodes:
            ray.kill(node)
        remove_placement_group(group)


ray.init()
lives = 0
while True:
    start = time.monotonic()
    code = run_all()
    lives = 1 if time.monotonic() - start > 600 else lives + 1
    if code >= 0 or lives > ${MAX_LIVES}:
        break
    print("Processes of the job were killed, or a node was lost. Starting all of them again.", file=sys.stderr, flush=True)
# Codes of kills are for a driver that was killed itself, which is started again.
sys.exit(code if 0 <= code < 128 else 1)
`;
}

/** Kills in a row, with less than ten minutes between them, after which the job has failed. */
const MAX_LIVES = 5;

/** Ray runs a job once, and has it fail when its driver is killed: the shell that Ray starts makes another one. */
function entrypointOf(job: Job): string {
  return `for life in $(seq ${1 + MAX_LIVES}); do
python3 - <<'DRIVER'
${driverOf(job)}DRIVER
code=$?
[ $code = 137 ] || break
echo "The driver of the job was killed. Starting it again."
done
exit $code
`;
}
