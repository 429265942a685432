/** The thread of the checks: in come patterns and schemas with texts, out go results, one for one, in order. */
import { parentPort } from "node:worker_threads";
import { invariant } from "../../errors/reroll-error.ts";
import { findJson } from "../json-schema/find-json.ts";
import { compileSchema } from "../json-schema/validate.ts";
import type { ThreadReply } from "../thread-pool.ts";
import type { Check, CheckResult, MatchRequest, SchemaFit, SchemaRequest } from "./check-pool.ts";

const port = parentPort;
invariant(port !== null, "check-worker runs as a worker thread");
const send = (reply: ThreadReply<CheckResult>) => port.postMessage(reply);
port.on("message", (check: Check) => {
  send({ kind: "result", result: check.kind === "match" ? { found: lastMatch(check) } : fitSchema(check) });
});
send({ kind: "ready" });

function lastMatch({ pattern, flags, text }: MatchRequest): string | undefined {
  let last: RegExpExecArray | undefined;
  for (const match of text.matchAll(new RegExp(pattern, `${flags}g`))) last = match;
  return last === undefined ? undefined : (last[1] ?? last[0]);
}

function fitSchema({ schema, text }: SchemaRequest): SchemaFit {
  const value = findJson(text);
  return value === undefined ? { hasJson: false } : { hasJson: true, problem: compileSchema(schema)(value) };
}
