/**
 * Episodes that are tried again: the model is shown how its first try ended, writes down what went wrong, and plays the same task with
 * that in its context.
 *
 * The first try is the trajectory, as in any other run. The second hangs on it: it has no part in the group, and where it succeeds it is
 * learned without the reflection. Whatever goes wrong on the way costs the second try and nothing else. Everything is drawn by seeds of
 * the episode.
 */
import { z } from "zod";
import type { Conversation } from "../chat/conversation.ts";
import { fillTemplate } from "../data/fill-template.ts";
import type { Trajectory, TrajectoryEnd } from "../flow/trajectory.ts";
import { deriveSeed } from "../random/random.ts";
import { type EpisodeControl, type EpisodeParts, type EpisodeTask, playTask, type RunEpisode } from "./episode.ts";
import { settled } from "./failure-policy.ts";
import { generateTurn } from "./generate-turn.ts";

export const reflectionOptions = z.strictObject({
  successAt: z
    .number()
    .default(1)
    .describe(
      "Total reward from which a try is a success. First tries below it are reflected on; second tries that reach it are learned.",
    ),
  perGroup: z
    .int()
    .positive()
    .default(1)
    .describe("Trajectories of each group, counted from the first, that are tried again when they fail."),
  prompt: z
    .string()
    .min(1)
    .default("That attempt earned a reward of {reward}. Say briefly what went wrong and what to do instead.")
    .describe(
      "Message after a failed try, which the model answers with its reflection. {reward}, {truth} and columns of the data are filled in.",
    ),
  context: z
    .string()
    .min(1)
    .default("Notes from an earlier attempt at this task: {reflection}")
    .describe("Text before the first message of the second try. {reflection}, {truth} and columns are filled in."),
  maxTokens: z.int().positive().default(256).describe("Maximum number of tokens in a reflection."),
  divergence: z
    .enum(["forward", "reverse", "jsd"])
    .default("forward")
    .describe("Divergence from the policy that reads the reflection, over the whole vocabulary."),
  coefficient: z.number().positive().default(1).describe("Weight of the divergence in the loss."),
});

type ReflectionOptions = z.output<typeof reflectionOptions>;

/** Episodes whose failures are tried again. */
export function createReflectingRunner(parts: EpisodeParts, options: ReflectionOptions): RunEpisode {
  return async (task, control) => {
    const { trajectory, conversation } = await playTask(parts, task, control);
    const isDue = task.sampleIndex < options.perGroup && hasEnded(trajectory.end) && !isSuccess(trajectory, options);
    if (!isDue || conversation === null) return trajectory;
    const reflection = await reflect(parts, options, { task, control, trajectory, conversation });
    if (reflection === null) return trajectory;
    const lead = fillTemplate(options.context, { ...fieldsOf(trajectory), reflection });
    const view = { lead, twinLead: "", draws: "retry" } as const;
    const { turns, end, reward } = (await playTask(parts, { ...task, id: `${task.id}-retry` }, control, view))
      .trajectory;
    const isLearned = hasEnded(end) && isSuccess({ reward }, options);
    return { ...trajectory, secondTry: { reflection, turns, end, reward, isLearned } };
  };
}

interface FirstTry {
  readonly task: EpisodeTask;
  readonly control: EpisodeControl;
  readonly trajectory: Trajectory;
  readonly conversation: Conversation;
}

/** What the model writes about its try, which it sees as it was; null where it cannot be asked. */
async function reflect(
  { generate, format, sampling, limits, clock, sessionPrefix = "" }: EpisodeParts,
  { prompt, maxTokens }: ReflectionOptions,
  { task, control, trajectory, conversation }: FirstTry,
): Promise<string | null> {
  const { signal } = control;
  const wait = { stage: "generation", name: "Generation of a reflection", signal } as const;
  const content = fillTemplate(prompt, fieldsOf(trajectory));
  const asked = await settled(wait, () =>
    conversation.ask([{ role: "user", content }], limits.contextLength, "conversation"),
  );
  if (asked.kind !== "done" || asked.value.length >= limits.contextLength) return null;
  const promptIds = asked.value;
  const generated = await generateTurn(generate, control.gate, {
    promptIds,
    sampling: {
      stopIds: format.tokenizer.stopIds,
      ...sampling,
      maxTokens: Math.min(maxTokens, limits.contextLength - promptIds.length),
      seed: deriveSeed(task.seed, "reflection"),
    },
    ...(format.context === "conversation" && { sessionId: `${sessionPrefix}${task.id}` }),
    wait: { ...wait, timeoutMs: limits.generateMs },
    clock,
    onStage: control.onStage,
  });
  if (generated.kind !== "done") return null;
  const { reply, finish } = generated.value;
  return finish.kind === "aborted" || finish.kind === "failed" ? null : format.replyText(reply);
}

/** What templates may name. */
function fieldsOf({ prompt, reward }: Trajectory) {
  return { ...prompt.extra, truth: prompt.truth, reward: reward.total };
}

/** Whether the reward means anything. */
function hasEnded({ kind }: TrajectoryEnd): boolean {
  return kind === "completed" || kind === "truncated";
}

function isSuccess({ reward }: Pick<Trajectory, "reward">, { successAt }: ReflectionOptions): boolean {
  return reward.total >= successAt;
}
