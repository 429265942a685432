/** How a run stands, as a word with a dot: never by color alone. */
import type { RunStatus } from "../../../src/tracking/run-record.ts";

export function Status({ status }: { readonly status: RunStatus }) {
  return <span class={`status ${status}`}>{status}</span>;
}
