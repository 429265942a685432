/**
 * The teachers of a run, as rollout and experience see them.
 *
 * Servers measure trajectories as they end, beside the sampling of others; a trajectory that its teacher could not measure has failed, as
 * one that could not be scored. Models in folders, and the policy itself, are asked by the trainer.
 */
import type { Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import { fillTemplate } from "../data/fill-template.ts";
import { buildEnv } from "../envs/catalog.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { splitTurns } from "../experience/sample-builder.ts";
import { joinIds } from "../flow/join-arrays.ts";
import type { Prompt } from "../flow/prompt.ts";
import type { Trajectory, Turn } from "../flow/trajectory.ts";
import { connectTeacher, type RemoteTeacher } from "../generation/remote/connect-teacher.ts";
import type { RunEpisode } from "../rollout/episode.ts";
import { settled } from "../rollout/failure-policy.ts";
import type { DistillationSource, TeacherSource } from "../training/trainer-source.ts";
import type { DistillationOptions } from "./distillation-options.ts";
import { modelTokenizer } from "./prepare-model.ts";
import type { RunConfig } from "./run-config.ts";

export interface RunTeachers {
  /** What a prompt's teacher reads beside it; null for nothing. */
  readonly contextOf: (prompt: Prompt) => string | null;
  /** The same episodes, measured by servers. */
  readonly measured: (runEpisode: RunEpisode) => RunEpisode;
  close(): Promise<void>;
}

/** Tries every teacher that is a server, and lets go of it: one that cannot teach is found before a run is made. */
export async function tryTeachers(config: RunConfig): Promise<void> {
  const { distillation, model, envs } = config;
  if (distillation === null || Object.values(distillation.teachers).every(({ type }) => type !== "server")) return;
  const tokenizer = await modelTokenizer(model, Object.values(envs).map(buildEnv));
  await (await openTeachers(distillation, config, tokenizer)).close();
}

/** Connects to the teachers that are servers, and has each prove that it speaks the model's tokens. */
export async function openTeachers(
  { teachers }: DistillationOptions,
  { rollout }: RunConfig,
  tokenizer: Tokenizer,
): Promise<RunTeachers> {
  const servers = new Map<string, RemoteTeacher>();
  const close = async () => {
    for (const server of servers.values()) server.close();
  };
  try {
    for (const [name, teacher] of Object.entries(teachers)) {
      const key = `distillation.teachers.${name}`;
      if (teacher.type !== "server") continue;
      const { kind, url, apiKey } = teacher;
      const place = { kind, url: url.reveal(), ...(apiKey !== null && { apiKey: apiKey.reveal() }) };
      servers.set(name, await connectTeacher({ ...place, tokenizer, maxTokens: rollout.contextLength, name: key }));
    }
  } catch (cause) {
    await close();
    throw cause;
  }
  const nameOf = teacherNames(teachers);
  return {
    contextOf: (prompt) => {
      const { context = null } = teachers[nameOf(prompt.domain) ?? ""] ?? {};
      return context === null ? null : fillTemplate(context, { ...prompt.extra, truth: prompt.truth });
    },
    measured: (runEpisode) => async (task, control) => {
      const trajectory = await runEpisode(task, control);
      const server = servers.get(nameOf(task.prompt.domain) ?? "");
      return server === undefined ? trajectory : measure(server, trajectory, control.signal);
    },
    close,
  };
}

/** The teacher of a domain: its own, or the default; null where there is neither. */
export function teacherNames(teachers: DistillationOptions["teachers"]): (domain: string) => string | null {
  return (domain) => [domain, "default"].find((name) => Object.hasOwn(teachers, name)) ?? null;
}

/** Teachers as the trainer opens them. What servers say comes with the rows. */
export function teacherSources({ teachers, rewards, ...options }: DistillationOptions): DistillationSource {
  const sources = Object.entries(teachers).flatMap(([name, teacher]): (readonly [string, TeacherSource])[] => {
    if (teacher.type === "server") return [];
    return [[name, teacher.type === "folder" ? { type: "folder", folder: teacher.path } : { type: teacher.weights }]];
  });
  return { ...options, keepsRewards: rewards, teachers: Object.fromEntries(sources) };
}

async function measure(server: RemoteTeacher, trajectory: Trajectory, signal: AbortSignal): Promise<Trajectory> {
  if (trajectory.end.kind !== "completed" && trajectory.end.kind !== "truncated") return trajectory;
  const name = `Teacher of "${trajectory.prompt.domain}"`;
  const measured = await settled({ stage: "reward", name, signal }, async () => {
    const runs = await Promise.all(splitTurns(trajectory.turns).map((run) => measureRun(server, run, signal)));
    return new Map(runs.flat());
  });
  if (measured.kind !== "done") return { ...trajectory, end: measured };
  const turns = trajectory.turns.map((turn) => {
    const teacherLogprobs = measured.value.get(turn);
    return teacherLogprobs === undefined ? turn : { ...turn, teacherLogprobs };
  });
  return { ...trajectory, turns };
}

/** Turns that continue each other are one request. */
async function measureRun(
  server: RemoteTeacher,
  run: readonly Turn[],
  signal: AbortSignal,
): Promise<readonly (readonly [Turn, Float32Array])[]> {
  const seen = ({ twinPromptIds, promptIds }: Turn) => twinPromptIds ?? promptIds;
  const last = run.at(-1)!;
  const logprobs = await server.score(joinIds([seen(last), last.reply.tokenIds]), signal);
  return run.map((turn) => {
    const start = seen(turn).length;
    const own = logprobs.slice(start, start + turn.reply.tokenIds.length);
    if (own.some((value) => Number.isNaN(value)))
      throw new RerollError("REMOTE_INCAPABLE", "The server left out log-probs of tokens that it was asked about.");
    return [turn, own] as const;
  });
}
