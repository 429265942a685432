/** The libraries that pieces are compared with, as read in August 2026. agent-lightning has what verl has. */
export const peers = [
  "verl",
  "ROLL",
  "TRL",
  "AReaL",
  "slime",
  "ART",
  "prime-rl",
  "OpenRLHF",
  "SkyRL",
  "tinker",
  "HDMI",
] as const;

export type Peer = (typeof peers)[number];
