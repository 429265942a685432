/**
 * A point on a line that goes to commanded places, with a motor whose strength and sign are hidden. Who sees one observation
 * cannot know which way a push goes; who remembers the last one can.
 *
 * Episodes last 24 ticks, the first ones less where they are staggered; one that runs off the line ends.
 */
import type { VecEnv, VecObservation, VecStep } from "../../../src/control/envs/vec-env.ts";
import { deriveSeed, Random, type RandomState } from "../../../src/random/random.ts";

const EPISODE_TICKS = 24;
const COMMAND_TICKS = 8;
const LINE_END = 3;

interface Point {
  random: Random;
  tick: number;
  place: number;
  action: number;
  target: number;
  gain: number;
}

export class HiddenGainEnv implements VecEnv {
  readonly numEnvs: number;
  readonly observationSize = 6;
  readonly actions = { kind: "continuous", size: 1, low: -1, high: 1 } as const;
  readonly observationGroups = {
    cmd: { start: 0, size: 1 },
    obs: { start: 1, size: 2 },
    object: { start: 3, size: 1 },
    priv: { start: 4, size: 2 },
  };
  readonly rewardGroups = ["tracking", "effort"];
  readonly #isStaggered: boolean;
  #points: Point[] = [];
  readonly #step: VecStep & { readonly rewardParts_NG: Float32Array };

  /** @param isStaggered environments begin in the middle of an episode, each somewhere else */
  constructor(numEnvs: number, { isStaggered = true } = {}) {
    this.numEnvs = numEnvs;
    this.#isStaggered = isStaggered;
    this.#step = {
      observations_NO: new Float32Array(numEnvs * this.observationSize),
      rewards_N: new Float32Array(numEnvs),
      rewardParts_NG: new Float32Array(numEnvs * 2),
      terminated_N: new Uint8Array(numEnvs),
      truncated_N: new Uint8Array(numEnvs),
      finalObservations_NO: new Float32Array(numEnvs * this.observationSize),
    };
  }

  reset(seed: number): VecObservation {
    this.#points = Array.from({ length: this.numEnvs }, (_, n) =>
      begin(new Random(deriveSeed(seed, n)), this.#isStaggered ? n % EPISODE_TICKS : 0),
    );
    for (const [n, point] of this.#points.entries()) this.#observe(point, n, this.#step.observations_NO);
    return this.#step;
  }

  step(actions_NA: Float32Array): VecStep {
    const { rewards_N, rewardParts_NG, terminated_N, truncated_N, observations_NO, finalObservations_NO } = this.#step;
    for (const [n, point] of this.#points.entries()) {
      point.action = Math.max(-1, Math.min(1, actions_NA[n]!));
      point.place += 0.4 * point.gain * point.action;
      point.tick++;
      rewardParts_NG[2 * n] = Math.exp(-2 * Math.abs(point.place - point.target));
      rewardParts_NG[2 * n + 1] = -0.01 * point.action ** 2;
      rewards_N[n] = rewardParts_NG[2 * n]! + rewardParts_NG[2 * n + 1]!;
      if (point.tick % COMMAND_TICKS === 0) point.target = point.random.uniform() * 2 - 1;
      terminated_N[n] = Math.abs(point.place) > LINE_END ? 1 : 0;
      truncated_N[n] = point.tick >= EPISODE_TICKS ? 1 : 0;
      if (terminated_N[n] === 1 || truncated_N[n] === 1) {
        this.#observe(point, n, finalObservations_NO);
        this.#points[n] = begin(point.random, 0);
      }
      this.#observe(this.#points[n]!, n, observations_NO);
    }
    return this.#step;
  }

  save(): unknown {
    return this.#points.map(({ random, ...rest }) => ({ ...rest, random: random.state() }));
  }

  restore(saved: unknown): void {
    const points = saved as (Omit<Point, "random"> & { random: RandomState })[];
    this.#points = points.map(({ random, ...rest }) => ({ ...rest, random: new Random(random) }));
  }

  #observe({ place, action, target, gain }: Point, n: number, into: Float32Array): void {
    into.set([target, place, action, place - target, Math.sign(gain), Math.abs(gain)], n * this.observationSize);
  }
}

function begin(random: Random, tick: number): Point {
  const sign = random.uniform() < 0.5 ? -1 : 1;
  const gain = sign * (0.5 + random.uniform());
  return { random, tick, place: random.uniform() - 0.5, action: 0, target: random.uniform() * 2 - 1, gain };
}
