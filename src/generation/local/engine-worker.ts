/** The thread of a ThreadedEngine. */
import { hostInThread } from "../../workers/host-in-thread.ts";
import { engineLine } from "./engine-host.ts";
import { openHostedEngine } from "./hosted-engine.ts";

await hostInThread(openHostedEngine, engineLine(setImmediate));
