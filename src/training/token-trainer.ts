/**
 * One training step on token samples: score the whole rollout, then update in minibatches.
 *
 * In: an immutable batch. Out: a report; the weights have changed. Denominators are those of each update, so that the cut into
 * microbatches changes nothing; nor do ranks, of which each scores the whole rollout. Knows nothing of environments or engines.
 * An update whose loss or gradients are not finite is skipped: weights and optimizers stay as they are, and the schedule moves on.
 */

import { readCorrectionMetrics } from "../algorithms/corrections/correction-metrics.ts";
import type { Measured, Recipe, RecipeState } from "../algorithms/recipe-runner/recipe.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { CorrectionMetrics } from "../flow/batch-statistics.ts";
import type { Metrics } from "../flow/metrics.ts";
import { type ScoredBatch, selectRows, type TokenBatch } from "../flow/token-batch.ts";
import type { SampleBatch } from "../flow/token-sample.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { noGrad } from "../torch/autograd.ts";
import { zeros } from "../torch/create.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import { applySchedule, type Schedule } from "../torch/optim/schedule.ts";
import { keep, tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import { samplerGap, stalenessOf, tdErrorsOf } from "./batch-metrics.ts";
import { LossForesight } from "./foresee-loss.ts";
import { type LessonOptions, type LessonRows, learnLessons, lessonsOf, openLessons } from "./lessons.ts";
import { type Critic, joinParts, measureAll, measurePolicy, measureValues } from "./measure-rows.ts";
import { MetricSums } from "./metric-sums.ts";
import { minibatchesOf } from "./minibatches.ts";
import { isOwnAnchor, lateMetrics, type SampledTokens } from "./own-anchor.ts";
import {
  type CriticLearning,
  measuredElsewhere,
  type OtherRoles,
  valueTargets,
  withCriticMetrics,
} from "./roles/other-roles.ts";
import { countTrajectories, greedyOf, rewardsOf, weightsOf } from "./sample-facts.ts";
import { disposeScored, keepScored, tensorsOf } from "./scored-tensors.ts";
import { gatherRows, passesOf, rowsByRank } from "./split-batch.ts";
import { alone } from "./strategy/alone.ts";
import type { Strategy } from "./strategy/strategy.ts";
import { measureAs, measureTeachers, type Teacher, type TeachingParts, teacherGrid } from "./teaching.ts";
import { type Grid, gridConstants, gridOf, type RowTokens } from "./token-rows.ts";
import { type SampleNumbers, TrainerReading } from "./trainer-reading.ts";
import { isSeen, updatePasses } from "./update-passes.ts";
import { boundCritic, updateDenominators, updateShares } from "./update-shares.ts";

export interface TokenTrainerParts {
  readonly model: CausalLm;
  readonly recipe: Recipe;
  readonly optimizer: Optimizer;
  /** Factor on the learning rate, by the number of updates done, or of those planned: see `updatesPerStep`. */
  readonly schedule: Schedule;
  /** The policy that KL is measured to: a frozen model, or this one without its LoRA adapters or with those it once had. */
  readonly reference: Exclude<Teacher, "current"> | null;
  readonly critic: TrainedCritic | null;
  /** Roles in workers of their own: steps are told how to ask them. Default: none. */
  readonly elsewhere?: Elsewhere;
  /** The teachers of rows, in a run with distillation. */
  readonly teaching?: TeachingParts;
  /** How lessons count; batches with lessons need it. */
  readonly lessons?: LessonOptions;
  /** How the work is shared where there are several ranks. Default: there is one. */
  readonly strategy?: Strategy;
  readonly options: TokenTrainerOptions;
}

/** Which roles are apart from a trainer. */
export interface Elsewhere {
  readonly hasReference: boolean;
  /** See TrainedCritic. null: there is no critic elsewhere. */
  readonly criticWarmupUpdates: number | null;
}

export interface TrainedCritic extends Critic {
  readonly optimizer: Optimizer;
  /** Updates in which only the critic learns, while its values mean nothing yet. */
  readonly warmupUpdates: number;
}

export interface TokenTrainerOptions {
  /** The temperature the tokens were sampled with. */
  readonly temperature: number;
  /** Bounds the memory of a forward and backward pass. */
  readonly maxTokensPerMicrobatch: number;
  /** Trajectories per update; 0 for one update per rollout. */
  readonly minibatchTrajectories: number;
  readonly maxGradNorm: number;
  /**
   * Updates that the schedule has planned for a step. A step that makes more or fewer, because of replays or failed samples, moves
   * the schedule on by as much, so that it ends when the run does. Default: the schedule counts the updates that were made.
   */
  readonly updatesPerStep?: number;
  /** Trade time for memory in the backward pass. */
  readonly recompute: boolean;
  readonly seed: number;
}

/** The outcome of a step. */
export interface StepReport {
  readonly numUpdates: number;
  /** Updates up to the last one of this step, those of earlier steps among them, that were skipped one after another. */
  readonly numSkippedInRow: number;
  readonly metrics: Metrics;
  /** Numbers per token of the samples that `StepOptions.numbersOf` asked for, by their place in the batch. */
  readonly numbers?: ReadonlyMap<number, SampleNumbers>;
  /** Mean |return - value| over the loss tokens of each sample, before the updates. For recipes with a critic. */
  readonly tdErrors?: Float32Array;
}

export interface StepOptions {
  /** Samples whose tokens are reported on, by their place in the batch. Default none, which costs nothing. */
  readonly numbersOf?: readonly number[];
  /** The roles that are elsewhere, for trainers that were told so. */
  readonly others?: OtherRoles;
  /** Told when a rank goes on to another phase; null at the end of the step. */
  readonly onPhase?: (phase: "measure" | "update" | null, rank: number) => void;
}

/** The state that changes from step to step, apart from weights and optimizer. Plain data. */
export interface TokenTrainerState {
  readonly numSteps: number;
  /** Updates that were made or skipped: the schedule goes by them. */
  readonly numUpdates: number;
  readonly numSkippedInRow: number;
  readonly recipe: RecipeState;
}

export class TokenTrainer {
  readonly #parts: TokenTrainerParts;
  readonly #strategy: Strategy;
  readonly #foresight: LossForesight;
  /** Updates in which only a critic learns; -1 without one. */
  readonly #warmupUpdates: number;
  #state: TokenTrainerState;

  constructor(parts: TokenTrainerParts) {
    this.#parts = parts;
    this.#strategy = parts.strategy ?? alone;
    this.#foresight = new LossForesight(parts.recipe);
    this.#state = { numSteps: 0, numUpdates: 0, numSkippedInRow: 0, recipe: parts.recipe.initialState };
    const { recipe, reference, critic, elsewhere } = parts;
    this.#warmupUpdates = critic?.warmupUpdates ?? elsewhere?.criticWarmupUpdates ?? -1;
    if (recipe.needs.includes("referenceLogprobs_BT") && reference === null && elsewhere?.hasReference !== true)
      throw missingPart(recipe, "a reference model");
    if (recipe.hasCritic && this.#warmupUpdates < 0) throw missingPart(recipe, "a critic");
  }

  get state(): TokenTrainerState {
    return this.#state;
  }

  /** Goes on from a saved state; weights and optimizer are restored by whoever holds them. */
  restore(state: TokenTrainerState): void {
    this.#state = { ...state, recipe: this.#parts.recipe.resume(state.recipe) };
  }

  async step(batch: SampleBatch, { numbersOf = [], others = {}, onPhase }: StepOptions = {}): Promise<StepReport> {
    if (batch.samples.length === 0) throw new RerollError("EMPTY_BATCH", "The batch has no samples to train on.");
    const before = this.#state.numUpdates;
    const rows = this.#shareRows(gridOf(batch.samples), numbersOf);
    this.#observe(batch);
    const lessons = openLessons(batch, this.#parts.lessons);
    const updates = this.#planUpdates(rows.grid);
    const isAnchored = !isOwnAnchor(this.#parts.recipe, this.#parts.teaching, updates.length);
    onPhase?.("measure", 0);
    const { scored, sampled } = await this.#score(rows, batch.version, others, isAnchored);
    const late: CorrectionMetrics[] = [];
    onPhase?.("update", 0);
    try {
      await others.critic?.teach(valueTargets(scored));
      const sums = new MetricSums();
      const { recipe } = this.#parts;
      for (const [index, minibatch] of updates.entries()) {
        const place = { index, count: updates.length };
        const share = { ...rows, lessons: lessonsOf(lessons, place), otherCritic: others.critic, sampled, late };
        await this.#update(share, scored, minibatch, this.#factorAt(place), sums);
      }
      const state = recipe.stateMetrics(this.#state.recipe);
      const found = readCorrectionMetrics(Object.assign({}, scored.metrics, ...late));
      const own = { ...state, ...found, ...(await sums.read(this.#strategy)) };
      const metrics = others.critic === undefined ? own : withCriticMetrics(own, await others.critic.report());
      this.#advance(metrics, countTrajectories(batch));
      const numUpdates = this.#state.numUpdates - before;
      return {
        numUpdates,
        numSkippedInRow: this.#state.numSkippedInRow,
        metrics: { ...metrics, "train/updates": numUpdates },
        ...(numbersOf.length > 0 && { numbers: rows.reading.read(scored) }),
        ...tdErrorsOf(scored),
      };
    } finally {
      onPhase?.(null, 0);
      rows.reading.dispose();
      disposeScored(scored);
      for (const value of [...Object.values(sampled), ...late.flatMap(Object.values<Tensor>)]) value?.dispose();
    }
  }

  /** The rows of each update of a step. */
  #planUpdates(grid: Grid): readonly (readonly number[])[] {
    const { recipe, options } = this.#parts;
    const { numSteps } = this.#state;
    return Array.from({ length: recipe.numEpochs }, (_, epoch) =>
      minibatchesOf(grid, { ...options, numSteps, epoch }),
    ).flat();
  }

  /** Replays were seen when they were fresh. */
  #observe({ samples }: SampleBatch): void {
    const fresh = samples.filter(({ weight }) => weight === undefined);
    this.#state = { ...this.#state, recipe: this.#parts.recipe.observe(this.#state.recipe, rewardsOf(fresh)) };
  }

  #shareRows(grid: Grid, numbersOf: readonly number[]): StepRows {
    const { rank, numRanks } = this.#strategy;
    const shares = rowsByRank(grid, numRanks);
    const own = new Set(shares[rank]);
    const seen = this.#strategy.seesOutput ? numbersOf.filter((row) => own.has(row)) : [];
    const isFull = this.#parts.teaching?.form === "full";
    return { grid, seen: isFull ? teacherGrid(grid) : null, shares, own, reading: new TrainerReading(grid, seen) };
  }

  /** Everything that must see the whole rollout, before the weights change. */
  async #score(
    rows: StepRows,
    version: number,
    others: OtherRoles,
    isAnchored: boolean,
  ): Promise<{ readonly scored: ScoredBatch; readonly sampled: SampledTokens }> {
    const { recipe, model } = this.#parts;
    const { grid } = rows;
    const { teacherLogprobs_BT, ...measured } = await this.#measure(rows, others, isAnchored);
    const whole = noGrad(() =>
      tensorScope(() => {
        const { device } = model;
        const { lossMask_BT, samplerLogprobs_BT, rewards_BT, versions_BT, onOldCache_BT } = gridConstants(grid, device);
        const batch: TokenBatch = {
          lossMask_BT,
          samplerLogprobs_BT,
          rewards_BT,
          ...measured,
          ...(!isAnchored && { anchorLogprobs_BT: null }),
          ...weightsOf(grid, device),
          ...greedyOf(grid),
          groupOf: grid.samples.map(({ group }) => group),
          trajectoryOf: grid.samples.map(({ trajectory }) => trajectory),
          turnOf: grid.samples.map(({ turn }) => turn),
          stateOf: grid.samples.map(({ stateKey }) => stateKey),
          domainOf: grid.samples.map(({ domain = "" }) => domain),
          isTruncated: grid.samples.map(({ isTruncated }) => isTruncated),
          versions: { versions_BT, current: version },
          ...this.#teachingOf(teacherLogprobs_BT),
        };
        const scored = recipe.score(batch, this.#state.recipe);
        const metrics = { ...scored.metrics, ...samplerGap(batch, onOldCache_BT), ...stalenessOf(batch) };
        const sampled = { lossMask_BT: lossMask_BT.clone(), onOldCache_BT };
        return { scored: keepScored({ ...scored, metrics }), sampled: keep(sampled) };
      }),
    );
    const held = new Set(tensorsOf(whole.scored));
    for (const values of Object.values(measured)) if (values && !held.has(values)) values.dispose();
    teacherLogprobs_BT?.dispose();
    return whole;
  }

  #teachingOf(measured_BT: Tensor | undefined): Pick<TokenBatch, "teaching"> {
    const { teaching } = this.#parts;
    if (teaching === undefined) return {};
    const { coefficient, keepsRewards } = teaching;
    const teacherLogprobs = measured_BT === undefined ? null : { ofTeacher_BT: measured_BT };
    return { teaching: { teacherLogprobs, coefficient, keepsRewards } };
  }

  /** What the recipe needs from models, for all rows. Every rank measures its own; all get those of the others. */
  async #measure(
    { grid, shares, own, reading }: StepRows,
    others: OtherRoles,
    isAnchored: boolean,
  ): Promise<MeasuredRows> {
    const { recipe, model } = this.#parts;
    const isNeeded = (name: "anchorLogprobs_BT" | "referenceLogprobs_BT") =>
      recipe.needs.includes(name) && (isAnchored || name !== "anchorLogprobs_BT");
    const { maxTokensPerMicrobatch: maxTokens } = this.#parts.options;
    const { parts } = passesOf(this.#strategy, grid, shares, { kind: "measure", maxTokens });
    const measured: MeasuredRows =
      parts.length === 0
        ? {}
        : noGrad(() => tensorScope(() => keep(this.#measureOwn(grid, [...own], parts, reading, isAnchored))));
    const { device } = model;
    const given = await measuredElsewhere(others, grid, device);
    const names: readonly (keyof MeasuredRows)[] = [
      ...(["anchorLogprobs_BT", "referenceLogprobs_BT"] as const).filter(isNeeded),
      ...(recipe.hasCritic ? (["values_BT", "bootstrapValues_B"] as const) : []),
      ...(this.#parts.teaching?.form === "advantage" ? (["teacherLogprobs_BT"] as const) : []),
    ];
    const everyRow = grid.samples.map((_, row) => row);
    const gathered: { -readonly [Name in keyof MeasuredRows]: Tensor } = {};
    for (const name of names.filter((one) => !(one in given))) {
      const columns = name === "bootstrapValues_B" ? [] : [grid.numColumns];
      gathered[name] = await gatherRows(this.#strategy, shares, everyRow, measured[name] ?? null, { columns, device });
    }
    return { ...gathered, ...given };
  }

  /** Log-probs of the anchor and the reference, values of the critic. */
  #measureOwn(
    grid: Grid,
    own: readonly number[],
    parts: StepRows["shares"],
    reading: TrainerReading,
    isAnchored: boolean,
  ): MeasuredRows {
    const { recipe, model, reference, critic, teaching, options } = this.#parts;
    const { device } = model;
    const { temperature, maxTokensPerMicrobatch: maxTokens } = options;
    const settings = { temperature, recompute: false, numScores: model.config.vocabSize };
    const logprobsOf = (measured: CausalLm, see?: TrainerReading) =>
      measureAll(grid, own, parts, device, (packed, rows) => {
        const policy = measurePolicy(measured, packed, settings);
        see?.add(rows, policy);
        return { logprobs: policy.logprobs_BT };
      }).logprobs;
    const needs = new Set(recipe.needs);
    const values =
      critic === null || !recipe.hasCritic
        ? null
        : measureAll(grid, own, parts, device, (packed) => ({ ...measureValues(critic, packed) }));
    return {
      ...(needs.has("anchorLogprobs_BT") && isAnchored && { anchorLogprobs_BT: logprobsOf(model, reading) }),
      ...(needs.has("referenceLogprobs_BT") &&
        reference !== null && {
          referenceLogprobs_BT: measureAs(model, reference, logprobsOf),
        }),
      ...(teaching?.form === "advantage" && {
        teacherLogprobs_BT: measureTeachers(grid, own, teaching.teachers, { policy: model, maxTokens, temperature }),
      }),
      ...(values && { values_BT: values.values_BT, bootstrapValues_B: values.bootstrap_B }),
    };
  }

  /** What the schedule makes of the learning rate of an update, by its place among those of the step. */
  #factorAt({ index, count }: { readonly index: number; readonly count: number }): number {
    const { schedule, options } = this.#parts;
    const { numSteps, numUpdates } = this.#state;
    const planned = options.updatesPerStep;
    return schedule(planned === undefined ? numUpdates : numSteps * planned + (index * planned) / count);
  }

  async #update(
    { grid, seen: taught, shares, reading, lessons, otherCritic, sampled, late }: UpdateRows,
    scored: ScoredBatch,
    rows: readonly number[],
    factor: number,
    sums: MetricSums,
  ): Promise<void> {
    const { model, recipe, optimizer, critic, options } = this.#parts;
    const strategy = this.#strategy;
    const { numUpdates } = this.#state;
    // Computed there while the policy's are computed here.
    const criticUpdate = otherCritic?.update(rows);
    criticUpdate?.catch(() => {});
    applySchedule(optimizer, factor);
    optimizer.zeroGrad();
    critic?.optimizer.zeroGrad();
    const denominators = updateDenominators(() => selectRows(scored, rows));
    const lengthOf = (row: number) => Math.max(...[grid, taught ?? grid].map((of) => of.samples[row]!.tokenIds.length));
    const limits = { maxTokens: options.maxTokensPerMicrobatch, lengthOf };
    const { trained, parts, numOwn } = updateShares(strategy, { grid, shares, rows, ...limits });
    const seen: Tensor[] = [];
    const update = { grid, taught, scored, denominators, reading, sums, seen };
    await strategy.runPasses(updatePasses({ ...this.#parts, foresight: this.#foresight }, update, parts, numOwn));
    if (lessons !== null) {
      const learning = { ...options, ...this.#parts.lessons! };
      learnLessons(lessons, model, learning, strategy, sums);
    }
    await strategy.reduceGradients();
    if (isSeen(recipe, scored)) {
      const policyLogprobs_BT = await this.#joinSeen(grid, trained, rows, { parts: parts.slice(0, numOwn), seen });
      if (scored.anchorLogprobs_BT === null) late.push(lateMetrics(recipe, scored, rows, policyLogprobs_BT, sampled));
      else
        tensorScope(() =>
          sums.addUpdate(recipe.correctionMetrics({ rows: selectRows(scored, rows), policyLogprobs_BT })),
        );
      policyLogprobs_BT.dispose();
    }
    const { isOwnFinite, factors } = tensorScope(() => {
      const { norms, factors } = this.#boundGradients();
      sums.addUpdate(norms);
      return { isOwnFinite: sums.isFinite(norms), factors };
    });
    // Ranks see the losses of their own rows; an update is made by all of them or by none.
    const isCriticSound = (await criticUpdate) ?? true;
    const isSound = await strategy.agree(isOwnFinite && isCriticSound);
    await otherCritic?.apply(isSound ? "made" : "skipped", factor);
    if (isSound) {
      if (numUpdates >= this.#warmupUpdates) optimizer.step(factors.policy);
      if (critic !== null) applySchedule(critic.optimizer, factor);
      critic?.optimizer.step(factors.critic);
    }
    factors.policy?.dispose();
    factors.critic?.dispose();
    sums.endUpdate(isSound ? "made" : "skipped", optimizer.groups[0]?.lr ?? 0);
    optimizer.zeroGrad();
    critic?.optimizer.zeroGrad();
    const numSkippedInRow = isSound ? 0 : this.#state.numSkippedInRow + 1;
    this.#state = { ...this.#state, numUpdates: numUpdates + 1, numSkippedInRow };
  }

  /** Gives the norms from before, and the factors that the optimizers take along. */
  #boundGradients() {
    const { model, critic, options } = this.#parts;
    const strategy = this.#strategy;
    const policy = strategy.boundGradients(model.trainableParameters(), options.maxGradNorm);
    const values = critic && boundCritic(strategy, critic, options.maxGradNorm);
    const norms: CorrectionMetrics = {
      "train/grad_norm": policy.norm,
      ...(values && { "train/critic_grad_norm": values.norm }),
    };
    return { norms, factors: { policy: policy.factor, critic: values?.factor ?? null } };
  }

  /** What the policy said of all rows of an update, on all ranks; `seen` is freed. */
  async #joinSeen(
    grid: Grid,
    trained: StepRows["shares"],
    rows: readonly number[],
    { parts, seen }: { readonly parts: StepRows["shares"]; readonly seen: readonly Tensor[] },
  ): Promise<Tensor> {
    const own = trained[this.#strategy.rank]!;
    const { device } = this.#parts.model;
    const join = () =>
      seen.length > 0 ? joinParts(seen, parts, own) : zeros([own.length, grid.numColumns], { device });
    const joined = own.length === 0 ? null : tensorScope(() => keep(join()));
    for (const values of seen) if (values !== joined) values.dispose();
    return gatherRows(this.#strategy, trained, rows, joined, { columns: [grid.numColumns], device });
  }

  /**
   * Moves the recipe's controllers on by what was measured. Without a finite number they stay as they are, and so they do while only
   * the critic learns: they would steer a policy that does not move.
   */
  #advance(metrics: Metrics, numTrajectories: number): void {
    const { recipe } = this.#parts;
    const isLearning = this.#state.numUpdates > this.#warmupUpdates;
    const { klReward, entropy } = this.#state.recipe;
    const measured: { readonly [Name in keyof Measured]: Measured[Name] | undefined } = {
      ...(klReward && { referenceKl: metrics["score/reference_kl"] }),
      ...(entropy && { entropy: metrics["policy/entropy"] }),
      numTrajectories,
    };
    const isMeasured = (values: typeof measured): values is Measured => Object.values(values).every(Number.isFinite);
    this.#state = {
      ...this.#state,
      numSteps: this.#state.numSteps + 1,
      recipe: isLearning && isMeasured(measured) ? recipe.advance(this.#state.recipe, measured) : this.#state.recipe,
    };
  }
}

/** The rows of a step, and whose they are. */
interface StepRows {
  readonly grid: Grid;
  /** The rows as their teachers read them, where whole distributions are compared. */
  readonly seen: Grid<RowTokens> | null;
  /** By rank; all rows for the only one. */
  readonly shares: readonly (readonly number[])[];
  /** Those of this rank. */
  readonly own: ReadonlySet<number>;
  readonly reading: TrainerReading;
}

/** The rows of a step, and the lessons that one of its updates learns beside them. */
interface UpdateRows extends StepRows {
  readonly lessons: LessonRows | null;
  /** One that is elsewhere, for the rank that speaks to it. */
  readonly otherCritic: CriticLearning | undefined;
  readonly sampled: SampledTokens;
  /** Takes metrics that could not be found before the update. */
  readonly late: CorrectionMetrics[];
}

interface MeasuredRows
  extends Pick<TokenBatch, "anchorLogprobs_BT" | "referenceLogprobs_BT" | "values_BT" | "bootstrapValues_B"> {
  /** NaN where nobody measured. It leaves the trainer as `TeacherLogprobs` only. */
  readonly teacherLogprobs_BT?: Tensor;
}

function missingPart({ type }: Recipe, part: string): RerollError {
  return new RerollError("MISSING_PART", `Recipe ${type} with these options needs ${part}, and the trainer has none.`);
}
