/** The dashboard as commands start it: with tokenizers, and with errors that name flags. */

import { IncrementalDecoder } from "../chat/tokenizer/incremental-decoder.ts";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import { type Dashboard, type DashboardOptions, startDashboard } from "../dashboard/start-dashboard.ts";
import type { DecodeTokens } from "../dashboard/token-texts.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { listenError } from "../services/listen-address.ts";
import { DASHBOARD_PORT } from "./dashboard-port.ts";

/** Listens, or throws and says what to change. */
export async function openDashboard(options: Omit<DashboardOptions, "openTokenizer">): Promise<Dashboard> {
  try {
    return await startDashboard({ ...options, openTokenizer });
  } catch (cause) {
    if (cause instanceof RerollError) throw cause;
    const { host = "127.0.0.1", port = 0 } = options;
    throw listenError(cause instanceof Error ? cause : new Error(String(cause)), { host, port });
  }
}

/**
 * Opens the dashboard beside a run that is about to start: on the usual port or on any free one, because a run must not
 * fail over its dashboard.
 */
export async function openDashboardBesideRun(root: string): Promise<Dashboard> {
  try {
    return await openDashboard({ root, port: DASHBOARD_PORT });
  } catch (error) {
    if (!(error instanceof RerollError) || error.code !== "LISTEN_FAILED") throw error;
    return openDashboard({ root });
  }
}

/** A character that is spread over several tokens is the text of the last one; the others have none. */
export async function openTokenizer(folder: string): Promise<DecodeTokens> {
  const tokenizer = await loadTokenizer(folder);
  return (ids) => {
    const decoder = new IncrementalDecoder(tokenizer);
    const texts = ids.map((id) => decoder.push(id));
    const rest = decoder.flush();
    return rest === "" ? texts : [...texts.slice(0, -1), `${texts.at(-1) ?? ""}${rest}`];
  };
}
