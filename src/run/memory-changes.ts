/** Changes to a run that save memory, those that cost the least first, and the nearest ones after which it fits. Pure. */
import { maySplit } from "./engine-shares.ts";
import { listDevices } from "./placement-options.ts";
import type { RunConfig } from "./run-config.ts";

/** A change in the words of a run file; null where it changes nothing or does not go with the rest. */
type Change = (config: RunConfig) => { readonly words: string; readonly config: RunConfig } | null;

const zeroOf =
  (zero: 1 | 2 | 3): Change =>
  ({ ...config }) => {
    const { ranks, strategy, optimizer } = config.training;
    const isOnlyData = config.distillation !== null || config.reflection !== null || strategy.pipeline > 1;
    if (ranks === 1 || strategy.zero >= zero || optimizer.moments === "8-bit" || (isOnlyData && zero > 1)) return null;
    return { words: `training.strategy.zero: ${zero}`, config: withStrategy(config, { zero }) };
  };

/** Whether a run has the role is for whoever asks: a change that saves nothing is not taken. */
const sleepOf =
  (role: "reference" | "critic"): Change =>
  (config) => {
    const { placement, training } = config;
    const { zero, offload } = training.strategy;
    const cannot = role === "reference" ? zero === 3 : zero > 0 || offload !== "none";
    if (placement[role].sleep || cannot) return null;
    const changed = { ...config, placement: { ...placement, [role]: { ...placement[role], sleep: true } } };
    return { words: `placement.${role}.sleep: true`, config: changed };
  };

/** Splits engines over devices that they have already: whether the model can be split so is for whoever asks. */
const splitOf =
  (tensor: 2 | 4 | 8): Change =>
  (config) => {
    const { engine } = config.placement;
    const numDevices = engine.devices === null ? 0 : listDevices(engine.devices).length;
    if (engine.tensor * engine.expert > 1 || engine.workers === "threads" || numDevices % tensor !== 0) return null;
    if (numDevices === 0 || !maySplit(config)) return null;
    const changed = { ...config.placement, engine: { ...engine, tensor } };
    return { words: `placement.engine.tensor: ${tensor}`, config: { ...config, placement: changed } };
  };

const changes: readonly Change[] = [
  (config) =>
    config.training.recompute
      ? null
      : { words: "training.recompute: true", config: withTraining(config, { recompute: true }) },
  zeroOf(1),
  zeroOf(2),
  sleepOf("reference"),
  sleepOf("critic"),
  splitOf(2),
  splitOf(4),
  splitOf(8),
  zeroOf(3),
  (config) => {
    const { optimizer, strategy } = config.training;
    const isShared = strategy.zero > 0 || strategy.tensor * strategy.expert > 1 || strategy.offload !== "none";
    if (optimizer.moments === "8-bit" || isShared) return null;
    const changed = withTraining(config, { optimizer: { ...optimizer, moments: "8-bit" } });
    return { words: 'training.optimizer.moments: "8-bit"', config: changed };
  },
  (config) => {
    const { optimizer, strategy } = config.training;
    if (strategy.offload !== "none" || optimizer.moments === "8-bit") return null;
    return {
      words: 'training.strategy.offload: "optimizer"',
      config: withStrategy(config, { offload: "optimizer" }),
    };
  },
  (config) =>
    config.model.lora !== null
      ? null
      : {
          words: "model.lora: { rank: 16 }",
          config: { ...config, model: { ...config.model, lora: { rank: 16, alpha: 32, targets: "all-linear" } } },
        },
];

/** The fewest changes after which the run fits, of at most three, those that cost the least first; null where none helps. */
export function nearestChange(config: RunConfig, fits: (changed: RunConfig) => boolean): string | null {
  let tried: readonly Changed[] = [{ words: [], config, next: 0 }];
  for (let size = 1; size <= 3; size++) {
    tried = tried.flatMap(oneMore);
    const found = tried.find((one) => fits(one.config));
    if (found !== undefined) return found.words.join(" with ");
  }
  return null;
}

interface Changed {
  readonly words: readonly string[];
  readonly config: RunConfig;
  /** The first change that may come on top. */
  readonly next: number;
}

function oneMore({ words, config, next }: Changed): readonly Changed[] {
  return changes.slice(next).flatMap((change, i) => {
    const made = change(config);
    return made === null ? [] : [{ words: [...words, made.words], config: made.config, next: next + i + 1 }];
  });
}

function withTraining(config: RunConfig, changed: Partial<RunConfig["training"]>): RunConfig {
  return { ...config, training: { ...config.training, ...changed } };
}

function withStrategy(config: RunConfig, changed: Partial<RunConfig["training"]["strategy"]>): RunConfig {
  return withTraining(config, { strategy: { ...config.training.strategy, ...changed } });
}
