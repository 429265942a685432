/** Which peers can be set to each recipe; the rest of its row comes from its doc comment and its schema. */
import type { RecipeName } from "../../../../src/algorithms/recipes/table.ts";
import type { Peer } from "./peers.ts";

export const recipePeers: Readonly<Record<RecipeName, readonly Peer[]>> = {
  ppo: ["verl", "ROLL", "TRL", "AReaL", "slime", "OpenRLHF", "SkyRL"],
  grpo: ["verl", "ROLL", "TRL", "AReaL", "slime", "ART", "OpenRLHF", "SkyRL", "tinker"],
  dapo: ["verl", "ROLL", "TRL", "AReaL", "slime", "OpenRLHF", "SkyRL"],
  "dr-grpo": ["verl", "ROLL", "TRL", "AReaL", "ART", "prime-rl", "OpenRLHF", "SkyRL", "tinker"],
  gspo: ["verl", "ROLL", "TRL", "AReaL", "slime", "ART", "OpenRLHF", "SkyRL"],
  cispo: ["verl", "ROLL", "TRL", "slime", "ART", "SkyRL", "tinker"],
  sapo: ["verl", "TRL", "AReaL", "SkyRL"],
  gmpo: ["verl", "TRL"],
  rloo: ["verl", "ROLL", "TRL", "AReaL", "OpenRLHF", "SkyRL"],
  reinforce: ["ROLL", "OpenRLHF", "SkyRL", "tinker"],
  "reinforce-pp": ["verl", "ROLL", "AReaL", "slime", "OpenRLHF", "SkyRL"],
  "reinforce-pp-baseline": ["verl", "slime", "OpenRLHF"],
  remax: ["verl"],
  opo: ["verl"],
  gpg: ["verl"],
  topr: ["ROLL"],
  "truncated-is": ["ROLL"],
  dppo: ["verl", "prime-rl", "SkyRL"],
  "kl-cov": ["verl", "SkyRL"],
  "clip-cov": ["verl", "SkyRL"],
  maxrl: ["prime-rl", "SkyRL"],
  "pass-at-k": ["verl"],
  gigpo: ["ROLL"],
  "decoupled-ppo": ["AReaL", "verl"],
  "segment-ppo": ["ROLL"],
  kimi: ["ROLL", "verl", "ART"],
};
