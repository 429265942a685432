/**
 * Who may import whom: the layers of src, written out.
 *
 * A folder may import the ones listed here, and itself; `errors` is open to all. Change a line only on purpose: a new
 * entry is a decision about the design, and the check refuses a table with a cycle.
 */

const stages = [
  "data",
  "generation",
  "envs",
  "rewards",
  "rollout",
  "experience",
  "algorithms",
  "training",
  "weight-sync",
];

export const allowedImports = {
  errors: [],
  random: ["errors"],
  threads: ["errors"],
  // Where code that is not ours runs: bubblewrap, QuickJS. Rewards grade with it, environments offer it as a tool.
  sandbox: ["errors", "threads"],
  torch: ["errors"],
  models: ["errors", "torch"],
  flow: ["errors", "torch", "models"],
  tracking: ["errors", "flow"],

  // Stages know each other only where the path nests: rollout holds generation, envs and rewards; training holds algorithms and experience.
  data: ["errors", "random", "threads", "torch", "models", "flow"],
  generation: ["errors", "random", "threads", "torch", "models", "flow"],
  envs: ["errors", "random", "threads", "sandbox", "torch", "models", "flow"],
  rewards: ["errors", "random", "threads", "sandbox", "torch", "models", "flow"],
  rollout: ["errors", "random", "threads", "torch", "models", "flow", "data", "generation", "envs", "rewards"],
  experience: ["errors", "random", "threads", "torch", "models", "flow"],
  algorithms: ["errors", "torch", "flow"],
  training: ["errors", "random", "threads", "torch", "models", "flow", "algorithms", "experience"],
  "weight-sync": ["errors", "torch", "models", "flow"],

  loops: ["errors", "random", "threads", "sandbox", "torch", "models", "flow", "tracking", ...stages],
  cluster: ["errors", "random", "threads", "sandbox", "torch", "models", "flow", "tracking", ...stages, "loops"],
  run: ["errors", "random", "threads", "sandbox", "torch", "models", "flow", "tracking", ...stages, "loops", "cluster"],
  dashboard: ["errors", "flow", "tracking", "run"],
  cli: [
    "errors",
    "random",
    "sandbox",
    "torch",
    "models",
    "flow",
    "tracking",
    ...stages,
    "loops",
    "cluster",
    "run",
    "dashboard",
  ],
};

/** Folders that may read the clock and draw random numbers; everything below them gets a clock and a seed passed in. */
export const clockFolders = ["cli", "run", "tracking"];

/** Single files outside those folders that may read the clock, each with its reason. */
export const clockFiles = {};

/** Places that may write to the console. */
export const consolePlaces = ["src/cli/", "src/tracking/console.ts"];
