/** The process of a rank of a split engine that takes its weights from files. */
import { hostInWorker, leaveSignalsToOwner } from "../../workers/host-in-process.ts";
import { HostedRank } from "./split/engine-rank.ts";

leaveSignalsToOwner();
await hostInWorker(HostedRank.open);
