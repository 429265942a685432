/** Which peers have each reduction, by its tag; formula and source stand in the doc comment of `Reduction`. */
import type { Reduction } from "../../../../src/algorithms/reduce.ts";
import type { Peer } from "./peers.ts";

export const reductionPeers: Readonly<Record<Reduction["type"], readonly Peer[]>> = {
  "token-mean": ["verl", "ROLL", "TRL", "AReaL", "slime", "ART", "prime-rl", "OpenRLHF", "SkyRL"],
  "token-sum": ["verl"],
  "trajectory-mean-token-mean": [],
  "trajectory-mean-token-sum": [],
  "trajectory-mean-token-sum-norm": [],
  "seq-mean-token-mean": ["verl", "ROLL", "TRL", "slime", "ART", "OpenRLHF", "SkyRL"],
  "seq-mean-token-sum": ["verl", "ROLL"],
  "seq-mean-token-sum-norm": ["verl", "ROLL", "TRL", "ART", "SkyRL"],
  "prompt-mean": ["SkyRL"],
};
