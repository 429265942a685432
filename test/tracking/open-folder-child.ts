/** A process that opens a run folder when it is told to, says whether it got it, and keeps it until its input ends. */
import { once } from "node:events";
import { RunFolder } from "../../src/tracking/run-folder.ts";

process.stdout.write("ready\n");
await once(process.stdin, "data");
const opened = await RunFolder.openForResume(process.argv[2]!, 0).catch((cause: Error) => cause.message);
process.stdout.write(typeof opened === "string" ? `refused: ${opened}\n` : "opened\n");
process.stdin.resume();
await once(process.stdin, "end");
if (typeof opened !== "string") await opened.close();
