/**
 * PPO, spelled out: the whole of it in one file, from tensors alone.
 *
 * Trains     two networks of 4,500 parameters, from nothing, to balance a pole on a cart (CartPole-v1)
 * Hardware   one CPU core
 * Time       ten seconds
 * Expect     mean return of the last 100 episodes from 19 to 500 in 200,000 steps, at 25,000 steps per second
 * Command    npx tsx examples/spelled-out/ppo-cartpole.ts [steps]
 *
 * A real run adds continuous actions, normalization, checkpoints and a dashboard: see examples/recipes/cart-pole.ts.
 */
import { Random } from "reroll";
import { createControlEnv } from "reroll/control";
import {
  AdamW,
  clipGradNorm,
  Generator,
  initialize,
  MLP,
  noGrad,
  setNumThreads,
  type Tensor,
  tensor,
  tensorScope,
} from "reroll/torch";

const [seed, totalSteps] = [1, Number(process.argv[2] ?? 200_000)];
const [N, T, O] = [4, 128, 4]; // environments, ticks per rollout, numbers of an observation
const [gamma, lambda, clip, entropyWeight, baseLr] = [0.99, 0.95, 0.2, 0.01, 1e-3];
const [numEpochs, minibatchSize] = [4, 128];
const numRollouts = Math.floor(totalSteps / (N * T));

setNumThreads(1); // Networks of this size only wait for a second thread.
const random = new Random(seed);
const generator = new Generator(seed);

/** Orthogonal weights; a small last layer, so that the first policy treats both actions alike. */
function network(outputs: number, outputGain: number): MLP {
  return new MLP({
    ...{ widths: [O, 64, 64, outputs], activation: "tanh", generator },
    ...{ initialWeight: initialize.orthogonal(Math.SQRT2), initialOutputWeight: initialize.orthogonal(outputGain) },
    initialBias: initialize.zeros,
  });
}

const actor = network(2, 0.01);
const critic = network(1, 1);
const networks = [actor, critic];
const optimizers = networks.map((one) => new AdamW(one.namedParameters(), { lr: baseLr, eps: 1e-5, weightDecay: 0 }));

const env = createControlEnv({ type: "cart-pole", numEnvs: N });
const observations_NO = Float32Array.from(env.reset(seed).observations_NO);
const returns_N = new Float64Array(N);
const lastReturns: number[] = [];
const startedMs = performance.now();

for (let step = 0; step < numRollouts; step++) {
  const rollout = rollOut();
  for (const { groups } of optimizers) for (const group of groups) group.lr = baseLr * (1 - step / numRollouts);
  tensorScope(() => learn(rollout));
  if (step % Math.ceil(numRollouts / 20) === 0 || step === numRollouts - 1) report(step + 1);
}

interface Rollout {
  readonly observations_TNO: Float32Array;
  readonly actions_TN: Float32Array;
  readonly logprobs_TN: Float32Array;
  readonly advantages_TN: Float32Array;
  readonly targets_TN: Float32Array;
}

/** T ticks of the policy as it is now, and what they were worth. */
function rollOut(): Rollout {
  const observations_TNO = new Float32Array(T * N * O);
  const [actions_TN, logprobs_TN, rewards_TN] = [0, 0, 0].map(() => new Float32Array(T * N)) as Triple;
  const hasEnded_TN = new Uint8Array(T * N);
  const truncated: { readonly at: number; readonly observation: Float32Array }[] = [];
  for (let t = 0; t < T; t++) {
    observations_TNO.set(observations_NO, t * N * O);
    const logits = noGrad(() => tensorScope(() => actor.forward(tensor(observations_NO, [N, O])).toArray()));
    for (let n = 0; n < N; n++) {
      // Two actions: the probability of the second is the logistic function of the difference of their logits.
      const second = 1 / (1 + Math.exp(logits[2 * n]! - logits[2 * n + 1]!));
      const action = random.uniform() < second ? 1 : 0;
      actions_TN[t * N + n] = action;
      logprobs_TN[t * N + n] = Math.log(action === 1 ? second : 1 - second);
    }
    const result = env.step(actions_TN.subarray(t * N, (t + 1) * N));
    rewards_TN.set(result.rewards_N, t * N);
    observations_NO.set(result.observations_NO);
    for (let n = 0; n < N; n++) {
      returns_N[n]! += result.rewards_N[n]!;
      if (result.terminated_N[n] === 0 && result.truncated_N[n] === 0) continue;
      hasEnded_TN[t * N + n] = 1;
      // A pole that fell is worth nothing more; one that a time limit cut off would have gone on.
      if (result.terminated_N[n] === 0)
        truncated.push({ at: t * N + n, observation: result.finalObservations_NO.slice(n * O, (n + 1) * O) });
      lastReturns.push(returns_N[n]!);
      if (lastReturns.length > 100) lastReturns.shift();
      returns_N[n] = 0;
    }
  }
  const values_TN = valuesOf(observations_TNO);
  const finals = valuesOf(Float32Array.from(truncated.flatMap(({ observation }) => [...observation])));
  const finalValues = new Map(truncated.map(({ at }, i) => [at, finals[i]!]));
  return { observations_TNO, actions_TN, logprobs_TN, ...estimate() };

  /** Generalized advantage estimation, from the last tick to the first. */
  function estimate() {
    const advantages_TN = new Float32Array(T * N);
    const next_N = valuesOf(observations_NO);
    const advantage_N = new Float64Array(N);
    for (let at = T * N - 1; at >= 0; at--) {
      const n = at % N;
      if (hasEnded_TN[at] === 1) [next_N[n], advantage_N[n]] = [finalValues.get(at) ?? 0, 0];
      const error = rewards_TN[at]! + gamma * next_N[n]! - values_TN[at]!;
      advantage_N[n] = error + gamma * lambda * advantage_N[n]!;
      advantages_TN[at] = advantage_N[n]!;
      next_N[n] = values_TN[at]!;
    }
    return { advantages_TN, targets_TN: advantages_TN.map((advantage, at) => advantage + values_TN[at]!) };
  }
}

type Triple = [Float32Array, Float32Array, Float32Array];

function valuesOf(observations: Float32Array): Float32Array {
  if (observations.length === 0) return new Float32Array(0);
  const rows = observations.length / O;
  return noGrad(() => tensorScope(() => critic.forward(tensor(observations, [rows, O])).toFloat32Array()));
}

/** Several passes over the rollout, in shuffled minibatches. */
function learn({ observations_TNO, actions_TN, logprobs_TN, advantages_TN, targets_TN }: Rollout): void {
  const B = T * N;
  const all = [
    tensor(observations_TNO, [B, O]),
    tensor(actions_TN, [B, 1]).to("int64"),
    ...[logprobs_TN, advantages_TN, targets_TN].map((column) => tensor(column, [B])),
  ];
  for (let epoch = 0; epoch < numEpochs; epoch++) {
    const order = tensor(Int32Array.from(random.shuffled(Array.from({ length: B }, (_, row) => row))), [B]);
    const columns = all.map((column) => column.indexSelect(0, order).split(minibatchSize));
    for (let part = 0; part < B / minibatchSize; part++)
      tensorScope(() => update(columns.map((parts) => parts[part]!) as Minibatch));
  }
}

type Minibatch = [observations: Tensor, actions: Tensor, logprobs: Tensor, advantages: Tensor, targets: Tensor];

/** -min(r A, clamp(r, 1 - clip, 1 + clip) A) for the actor, squared errors for the critic, less a little entropy. */
function update([observations, actions, oldLogprobs, rawAdvantages, targets]: Minibatch): void {
  const logprobs = actor.forward(observations).logSoftmax(1);
  const ratio = logprobs.gather(1, actions).squeeze(1).sub(oldLogprobs).exp();
  const advantages = rawAdvantages.sub(rawAdvantages.mean()).div(rawAdvantages.std().add(1e-8));
  const surrogate = ratio
    .mul(advantages)
    .minimum(ratio.clamp(1 - clip, 1 + clip).mul(advantages))
    .mean();
  const entropy = logprobs.exp().mul(logprobs).sum(1).mean().neg();
  const error = critic.forward(observations).squeeze(1).sub(targets).square().mean();
  for (const optimizer of optimizers) optimizer.zeroGrad();
  error.mul(0.5).sub(surrogate).sub(entropy, entropyWeight).backward();
  for (const one of networks) clipGradNorm(one.parameters(), 0.5);
  for (const optimizer of optimizers) optimizer.step();
}

function report(numDone: number): void {
  const mean = lastReturns.reduce((sum, value) => sum + value, 0) / lastReturns.length;
  const [steps, seconds] = [numDone * N * T, (performance.now() - startedMs) / 1000];
  console.log(`${steps} steps  return ${mean.toFixed(1)}  ${Math.round(steps / seconds)} steps/s`);
}
