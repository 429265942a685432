/**
 * All networks of teacher and student.
 *
 * In: observations, normalized once by `normalizer`. Out: latents, mean actions, values. Each network reads the groups in the
 * table and no others, so a student runs where nothing privileged is known.
 *
 * | network | reads | gives |
 * |---|---|---|
 * | encoderPriv | priv, object | latent |
 * | adaptModule, adaptEma (its slow copy) | obs, cmd, object, and the past | latent, predicted |
 * | actor (teacher) | cmd, obs, latent | mean of the action |
 * | actorAdapt (student) | cmd, obs, predicted latent | mean of the action |
 * | critic | everything | one value per group of rewards |
 */
import { z } from "zod";
import { noGrad } from "../../../torch/autograd.ts";
import { cat } from "../../../torch/create.ts";
import { Module } from "../../../torch/nn/module.ts";
import { Generator } from "../../../torch/random.ts";
import { tensorScope } from "../../../torch/scope.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { DiagonalGaussian } from "../../policy/action-distribution.ts";
import { ObservationNormalizer } from "../../policy/observation-normalizer.ts";
import type { PolicyKind } from "../../policy/policy-files.ts";
import { type AdaptModule, type AdaptPrediction, createAdaptModule } from "./adapt-module.ts";
import { MishMLP } from "./mish-mlp.ts";
import { type ObservationGroup, type ObservationLayout, readGroups, widthOf } from "./observation-layout.ts";

const ENCODER_READS: readonly ObservationGroup[] = ["priv", "object"];
const ADAPT_READS: readonly ObservationGroup[] = ["obs", "cmd", "object"];
const ACTOR_READS: readonly ObservationGroup[] = ["cmd", "obs"];

const slice = z.strictObject({ start: z.int().min(0), size: z.int().min(0) });
const widths = z.array(z.int().positive());

const shapeOptions = z.strictObject({
  observationSize: z.int().positive(),
  layout: z.strictObject({ cmd: slice, obs: slice, object: slice, priv: slice }),
  actionSize: z.int().positive(),
  numRewardGroups: z.int().positive(),
  /** Width of the latent, and of the hidden layers of encoder and adapt module. */
  latentSize: z.int().positive(),
  actorHidden: widths,
  criticHidden: widths,
  adaptModule: z.discriminatedUnion("type", [
    z.strictObject({ type: z.literal("mlp"), history: z.int().positive() }),
    z.strictObject({ type: z.literal("gru") }),
  ]),
  /** First log standard deviation of the actions. */
  logStd: z.number(),
  /** Factor by which the weight of earlier observations shrinks per tick in the normalizer. */
  normalizerDecay: z.number(),
});

/** All that is needed to build networks into which saved weights fit. */
export type AdaptationPolicyShape = z.output<typeof shapeOptions>;

/** How policies of adaptation are kept in files. */
export const adaptationPolicyKind: PolicyKind<AdaptationPolicyShape, AdaptationPolicy> = {
  name: "an adaptation policy",
  shape: shapeOptions,
  build: (shape) => new AdaptationPolicy({ ...shape, seed: 0 }),
};

/** The shape of all networks, and the seed of their first weights. */
interface AdaptationPolicyOptions extends AdaptationPolicyShape {
  readonly seed: number;
}

/** Gain of the output layers of actors and critic: the first actions and values are close to 0. */
const HEAD_GAIN = 0.01;

/** Gain of latents. They start as large as a normalized observation, so that the actors use them from the first update. */
const LATENT_GAIN = 1;

/** An actor that reads a latent beside the observation. Its standard deviation depends on neither. */
class LatentActor extends Module {
  readonly network: MishMLP;
  readonly distribution: DiagonalGaussian;

  constructor(network: MishMLP, distribution: DiagonalGaussian) {
    super();
    this.network = network;
    this.distribution = distribution;
  }
}

/** The networks of the table above, initialized from one seed. */
export class AdaptationPolicy extends Module {
  readonly layout: ObservationLayout;
  readonly latentSize: number;
  readonly actionSize: number;
  readonly normalizer: ObservationNormalizer;
  readonly encoderPriv: MishMLP;
  readonly actor: LatentActor;
  readonly actorAdapt: LatentActor;
  readonly adaptModule: AdaptModule;
  readonly adaptEma: AdaptModule;
  readonly critic: MishMLP;

  constructor(options: AdaptationPolicyOptions) {
    super();
    const { observationSize, layout, actionSize, numRewardGroups, latentSize, actorHidden, criticHidden } = options;
    const generator = new Generator(options.seed);
    const mlp = (inputSize: number, hidden: readonly number[], outputSize: number, outputGain: number) =>
      new MishMLP({ inputSize, hidden, outputSize, outputGain, generator });
    const latentActor = () =>
      new LatentActor(
        mlp(widthOf(layout, ACTOR_READS) + latentSize, actorHidden, actionSize, HEAD_GAIN),
        new DiagonalGaussian(actionSize, { logStd: options.logStd }),
      );
    const adapt = () =>
      createAdaptModule(options.adaptModule, {
        inputSize: widthOf(layout, ADAPT_READS),
        latentSize,
        outputGain: LATENT_GAIN,
        generator,
      });
    this.layout = layout;
    this.latentSize = latentSize;
    this.actionSize = actionSize;
    this.normalizer = new ObservationNormalizer(observationSize, { decay: options.normalizerDecay });
    this.encoderPriv = mlp(widthOf(layout, ENCODER_READS), [latentSize], latentSize, LATENT_GAIN);
    this.actor = latentActor();
    this.actorAdapt = latentActor();
    this.adaptModule = adapt();
    this.adaptEma = adapt();
    this.adaptEma.setTrainable(false);
    this.critic = mlp(observationSize, criticHidden, numRewardGroups, HEAD_GAIN);
    this.moveEma(1);
    generator.dispose();
  }

  /** The encoder's latents, [..., O] to [..., Z]. Observations are normalized, here and below. */
  encode(observations: Tensor): Tensor {
    return this.encoderPriv.forward(readGroups(observations, this.layout, ENCODER_READS));
  }

  /** The latents that a student infers, tick by tick, and its memory after the last. */
  predict(
    adapt: "adaptModule" | "adaptEma",
    observations_TNO: Tensor,
    isFirst_TN: Tensor,
    carry_NC: Tensor,
  ): AdaptPrediction {
    const inputs_TND = readGroups(observations_TNO, this.layout, ADAPT_READS);
    return this[adapt].forward({ inputs_TND, isFirst_TN, carry_NC });
  }

  /** Mean actions, [..., O] and [..., Z] to [..., A]. */
  means(actor: "actor" | "actorAdapt", observations: Tensor, latents: Tensor): Tensor {
    const inputs = cat([readGroups(observations, this.layout, ACTOR_READS), latents], -1);
    return this[actor].network.forward(inputs);
  }

  /** One value per reward group, [..., O] to [..., G]. */
  values(observations: Tensor): Tensor {
    return this.critic.forward(observations);
  }

  /** adaptEma += rate (adaptModule - adaptEma). A rate of 1 makes them equal. */
  moveEma(rate: number): void {
    noGrad(() =>
      tensorScope(() => {
        const targets = this.adaptModule.namedParameters();
        for (const [name, slow] of this.adaptEma.namedParameters()) slow.lerp_(targets.get(name)!, rate);
      }),
    );
  }
}
