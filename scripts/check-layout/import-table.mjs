/**
 * Who may import whom: the layers of src, written out.
 *
 * A folder may import the ones listed here, and itself; `errors` is open to all. Change a line only on purpose: a new
 * entry is a decision about the design, and the check refuses a table with a cycle.
 */

const foundations = [
  "errors",
  "files",
  "hub",
  "random",
  "numbers",
  "workers",
  "machines",
  "sandbox",
  "services",
  "torch",
  "models",
  "chat",
  "flow",
  "tracking",
];

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
  // Files and folders that are replaced as a whole.
  files: ["errors"],
  // Models and data sets by name, through the cache that all of Hugging Face's tools share.
  hub: ["errors", "files"],
  random: ["errors"],
  // Exact fractions: environments compute with them, rewards compare answers as them.
  numbers: ["errors"],
  // How code runs beside the controller: threads today, one typed way to call them. Tensors cross without a copy.
  workers: ["errors", "torch"],
  // Workers on other machines: how they find their controller and prove who they are, and what it starts on them.
  machines: ["errors", "workers"],
  // Handing a run to Slurm, Kubernetes or Ray: each scheduler's own format and programs, and nothing of training.
  launchers: ["errors"],
  // Plain calls between machines: JSON over HTTP behind a key, a socket for texts. What is called is up to who uses them.
  services: ["errors"],
  // Where code that is not ours runs: bubblewrap, QuickJS. Rewards grade with it, environments offer it as a tool.
  sandbox: ["errors", "workers"],
  torch: ["errors"],
  models: ["errors", "files", "torch"],
  flow: ["errors", "torch"],
  // Words into tokens and back: tokenizers, chat templates, tool calls, prompts and replies of a conversation. A tokenizer may lie in
  // a GGUF file, which the models' formats read.
  chat: ["errors", "models", "flow"],
  tracking: ["errors", "files", "flow"],

  // Stages know each other only where the path nests: rollout holds generation, envs and rewards; training holds algorithms and experience.
  data: ["errors", "files", "random", "workers", "torch", "models", "chat", "flow"],
  generation: ["errors", "random", "workers", "services", "torch", "models", "chat", "flow"],
  envs: ["errors", "random", "numbers", "workers", "sandbox", "services", "torch", "models", "chat", "flow"],
  rewards: ["errors", "random", "numbers", "workers", "sandbox", "services", "torch", "models", "chat", "flow"],
  rollout: ["errors", "random", "workers", "torch", "models", "chat", "flow", "data", "generation", "envs", "rewards"],
  experience: ["errors", "random", "workers", "torch", "models", "flow"],
  algorithms: ["errors", "torch", "flow"],
  training: ["errors", "random", "workers", "torch", "models", "chat", "flow", "algorithms", "experience"],
  "weight-sync": ["errors", "files", "torch", "models", "flow"],

  loops: [...foundations, ...stages],
  run: [...foundations, ...stages, "loops"],
  // Vector environments and their PPO: a domain of its own, from the equations of motion to the run. It shares what a run is.
  control: [...foundations, "envs", "algorithms", "training", "loops", "run"],
  // Runs on given data: what rows become, by objective, and the run. It shares what a run is; its trainer is one of `training`.
  tuning: [...foundations, "data", "training", "loops", "run"],
  // Fakes for tests, ours and those of users.
  testing: [...foundations, ...stages],
  dashboard: ["errors", "flow", "tracking", "run"],
  cli: [...foundations, ...stages, "loops", "run", "control", "tuning", "dashboard", "launchers"],
};

/** Folders that may read the clock and draw random numbers; everything below them gets a clock and a seed passed in. */
export const clockFolders = ["cli", "run", "tracking"];

/** Single files outside those folders that may read the clock, each with its reason. */
export const clockFiles = {
  "src/sandbox/javascript-runner.ts": "tells how long a program ran, which no number of a run depends on",
};

/** Places that may write to the console. */
export const consolePlaces = ["src/cli/", "src/tracking/console.ts"];
