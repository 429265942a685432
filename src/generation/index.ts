/** What `import ... from "reroll/generation"` gives: engines here, in a thread and on other machines, and the server. */

export type { ListenAddress } from "../services/listen-address.ts";
export type { Engine, EngineCounters, EngineStatus } from "./engine.ts";
export type {
  Constraint,
  Finish,
  Generate,
  GenerateRequest,
  Generation,
  SampledTokens,
  Sampling,
  TokenLogprob,
  Usage,
} from "./generate.ts";
export { copyWeights } from "./local/copy-weights.ts";
export type { EngineSource } from "./local/engine-host.ts";
export type { EngineOptions } from "./local/engine-options.ts";
export { LocalEngine } from "./local/local-engine.ts";
export { startThreadedEngine, type ThreadedEngine } from "./local/threaded-engine.ts";
export type { CapabilityName } from "./remote/capabilities.ts";
export { connectRemote, type RemoteEngine, type RemoteOptions } from "./remote/connect-remote.ts";
export type { RemoteKind } from "./remote/dialects.ts";
export { RemoteWeights } from "./remote/remote-weights.ts";
export { createServer, type GenerationServer } from "./server/create-server.ts";
export type { ServerOptions, ServerParts } from "./server/server-parts.ts";
export type {
  FinishedSession,
  SessionEnd,
  SessionRecord,
  SessionSample,
  SessionTurn,
} from "./server/session-record.ts";
export type { SessionLimits, Sessions } from "./server/sessions.ts";
