/** Which peers have each KL estimator; value and gradient stand in the header of kl/estimate.ts. */
import type { KlForm } from "../../../../src/algorithms/kl/estimate.ts";
import type { Peer } from "./peers.ts";

export const klFormPeers: Readonly<Record<KlForm, readonly Peer[]>> = {
  k1: ["verl", "ROLL", "AReaL", "slime", "OpenRLHF", "SkyRL"],
  abs: ["verl", "ROLL", "SkyRL"],
  k2: ["verl", "ROLL", "AReaL", "slime", "OpenRLHF", "SkyRL"],
  k3: ["verl", "ROLL", "TRL", "AReaL", "slime", "ART", "OpenRLHF", "SkyRL"],
};
