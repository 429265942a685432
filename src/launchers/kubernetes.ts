/**
 * Kubernetes: a JobSet with one pod per node, whose headless service gives every pod a name, and a volume that all of them mount.
 *
 * The token is a secret of its own, which the manifest names and does not hold.
 */
import { basename, isAbsolute } from "node:path";
import { stringify } from "yaml";
import { z } from "zod";
import { parseOptions } from "../errors/parse-options.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { type Job, type JobState, type Launcher, numProcesses } from "./launcher.ts";
import { runProgram } from "./run-program.ts";
import { shellLine } from "./shell-words.ts";

const optionsSchema = z.strictObject({
  image: z.string().describe("Image of the container, in which reroll is installed."),
  claim: z.string().describe("Persistent volume claim that holds the run file, its model and its data."),
  mount: z.string().default("/workspace").describe("Path in the pods of the folder that the run is submitted from."),
  namespace: z.string().default("default").describe("Namespace of the job."),
  restarts: z.coerce
    .number()
    .int()
    .nonnegative()
    .default(3)
    .describe("Times that all pods are started again after one has failed."),
});

export const kubernetes: Launcher = {
  describe: (job) => stringify(manifestOf(job), { lineWidth: 0 }),
  submit: async (job) => {
    const { namespace } = optionsOf(job);
    const id = idOf(job);
    const secret = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: secretName(id) },
      stringData: { token: job.token },
    };
    // Not applied: that would change the job of somebody else that has this name.
    const create = (manifest: object) =>
      runProgram("kubectl", ["create", "--namespace", namespace, "--filename", "-"], stringify(manifest)).catch(
        (cause: Error) => {
          throw cause.message.includes("(AlreadyExists)") ? isThere(id, namespace, cause) : cause;
        },
      );
    await create(secret);
    try {
      await create(manifestOf(job));
    } catch (cause) {
      await runProgram("kubectl", ["delete", "--namespace", namespace, `secret/${secretName(id)}`]);
      throw cause;
    }
    return id;
  },
  stateOf: async (job) => {
    const { namespace } = optionsOf(job);
    const words = ["get", "jobset", job.id, "--namespace", namespace, "--ignore-not-found", "--output", "json"];
    const text = await runProgram("kubectl", words);
    return text.trim() === "" ? "stopped" : stateFrom(jobSetSchema.parse(JSON.parse(text)));
  },
  logsOf: (job) => {
    const { namespace } = optionsOf(job);
    const selected = ["--selector", `jobset.sigs.k8s.io/jobset-name=${job.id}`];
    return runProgram("kubectl", [
      "logs",
      "--namespace",
      namespace,
      ...selected,
      "--prefix",
      // A pod that has not begun has no log, and those of the others are printed all the same.
      "--ignore-errors",
      "--tail=-1",
      "--max-log-requests=1000",
    ]);
  },
  stop: async (job) => {
    const { namespace } = optionsOf(job);
    const what = [`jobset/${job.id}`, `secret/${secretName(job.id)}`];
    await runProgram("kubectl", ["delete", "--namespace", namespace, "--ignore-not-found", ...what]);
  },
};

const jobSetSchema = z.looseObject({
  status: z
    .looseObject({
      terminalState: z.string().optional(),
      replicatedJobsStatus: z.array(z.looseObject({ ready: z.number().optional() })).optional(),
    })
    .optional(),
});

function stateFrom({ status }: z.output<typeof jobSetSchema>): JobState {
  if (status?.terminalState === "Completed") return "finished";
  if (status?.terminalState === "Failed") return "failed";
  // Pods that wait for a node or an image are active, too.
  return status?.replicatedJobsStatus?.some(({ ready = 0 }) => ready > 0) === true ? "running" : "waiting";
}

function optionsOf({ options }: Pick<Job, "options">): z.output<typeof optionsSchema> {
  return parseOptions(optionsSchema, options, "--option");
}

/** Jobs of one name are as many folders. */
function idOf({ folder }: Pick<Job, "folder">): string {
  return basename(folder);
}

function secretName(id: string): string {
  return `${id}-token`;
}

function isThere(id: string, namespace: string, cause: Error): RerollError {
  return new RerollError(
    "SCHEDULER_FAILED",
    `There is a job ${id} in the namespace ${namespace} already, which was not submitted from here. Give this one another --name.`,
    { id, namespace },
    { cause },
  );
}

const PORT = 29500;

function manifestOf(job: Job): object {
  const { numNodes, gpusPerNode } = job;
  const id = idOf(job);
  expectInside(job);
  const { image, claim, mount, restarts } = optionsOf(job);
  const container = {
    name: "reroll",
    image,
    command: ["sh", "-c", scriptOf(job)],
    workingDir: mount,
    env: [
      // The first pod, by the name that the service gives it.
      { name: "MASTER_ADDR", value: `${id}-node-0-0.${id}` },
      { name: "POD_IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
      { name: "MASTER_PORT", value: `${PORT}` },
      { name: "WORLD_SIZE", value: `${numProcesses(job)}` },
      { name: "REROLL_TOKEN", valueFrom: { secretKeyRef: { name: secretName(id), key: "token" } } },
    ],
    ...(gpusPerNode > 0 && { resources: { limits: { "nvidia.com/gpu": gpusPerNode } } }),
    volumeMounts: [
      { name: "work", mountPath: mount },
      // Ranks of one pod exchange gradients through shared memory.
      { name: "memory", mountPath: "/dev/shm" },
    ],
  };
  return {
    apiVersion: "jobset.x-k8s.io/v1alpha2",
    kind: "JobSet",
    metadata: { name: id },
    spec: {
      network: { enableDNSHostnames: true, subdomain: id, publishNotReadyAddresses: true },
      failurePolicy: { maxRestarts: restarts },
      replicatedJobs: [
        {
          name: "node",
          replicas: 1,
          template: {
            spec: {
              completionMode: "Indexed",
              parallelism: numNodes,
              completions: numNodes,
              backoffLimit: 0,
              template: {
                spec: {
                  restartPolicy: "Never",
                  containers: [container],
                  volumes: [
                    { name: "work", persistentVolumeClaim: { claimName: claim } },
                    { name: "memory", emptyDir: { medium: "Memory" } },
                  ],
                },
              },
            },
          },
        },
      ],
    },
  };
}

/** The volume stands for the folder that was submitted from. */
function expectInside({ runFile, files, workingFolder }: Job): void {
  const outside = [runFile, ...files].find((file) => isAbsolute(file) || file.startsWith(".."));
  if (outside === undefined) return;
  const what = outside === runFile ? "The run file" : "A file that the run is given";
  throw new RerollError(
    "INVALID_OPTION",
    `${what} must lie in the folder that it is submitted from, which is the volume of the pods: got ${outside} in ${workingFolder}.`,
  );
}

/**
 * One process for each GPU of a pod; the number of the pod is that of its completion. The image has reroll installed.
 *
 * The first pod listens at its address: its name may not be known yet, or still lead to the pod that was in its place before. The first process of
 * a container gets no signal that it does not ask for, so a shell that waits for others passes them on.
 */
function scriptOf({ gpusPerNode, runFile, words }: Job): string {
  // Kubernetes puts variables of the container in the place of $(NAME), whatever a shell would make of it, and takes $$ for $.
  const line = shellLine(["reroll", "train", runFile, ...words]).replaceAll("$", () => "$$");
  const place = '[ "$JOB_COMPLETION_INDEX" != 0 ] || export MASTER_ADDR=$POD_IP';
  if (gpusPerNode <= 1) return `${place}\nRANK=$JOB_COMPLETION_INDEX LOCAL_RANK=0 exec ${line}`;
  // Stopped between a start and the note of it, the shell would wait for a process that it does not stop. And what is a copy of the shell still, before it
  // is a program of its own, loses the signal: it has the shell's own words in /proc until then. ($$ would be read by Kubernetes.)
  return `${place}
read self rest < /proc/self/stat
stop() {
  trap "" TERM
  for process in $processes; do while cmp -s /proc/$self/cmdline /proc/$process/cmdline; do sleep 0.1; done; done
  kill $processes; wait; exit 143
}
trap 'stopped=1' TERM
for local in $(seq 0 ${gpusPerNode - 1}); do
  RANK=$((JOB_COMPLETION_INDEX * ${gpusPerNode} + local)) LOCAL_RANK=$local LOCAL_WORLD_SIZE=${gpusPerNode} ${line} &
  processes="$processes $!"
done
trap stop TERM
if [ -n "$stopped" ]; then stop; fi
for process in $processes; do wait $process || exit 1; done`;
}
