/**
 * A run as it goes on.
 *
 * In: server-sent events. Out: numbers that grow when something is new, so that views ask for it. The connection comes back by
 * itself, and after it has, everything counts as new.
 */
import { useEffect, useState } from "preact/hooks";
import type { LiveEvents } from "../../src/dashboard/answers.ts";
import type { RunInfo } from "../../src/tracking/run-record.ts";
import { runPath } from "./api.ts";
import { isExported } from "./exported.ts";

/** What is known from events. */
export interface Live {
  /** saved: the page is a file, and nothing will change. */
  readonly connection: "connecting" | "live" | "lost" | "gone" | "saved";
  readonly info?: RunInfo;
  /** Why the run is gone. */
  readonly message?: string;
  readonly metrics: number;
  readonly trajectories: number;
  readonly spans: number;
}

const RETRY_MS = 2000;

/** Follows one run while the component is there. */
export function useLive(run: string): Live {
  const [live, setLive] = useState<Live>({ connection: "connecting", metrics: 0, trajectories: 0, spans: 0 });
  useEffect(() => {
    if (isExported) {
      setLive((before) => ({ ...before, connection: "saved" }));
      return;
    }
    let source: EventSource;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const change = (make: (before: Live) => Partial<Live>) => setLive((before) => ({ ...before, ...make(before) }));
    const on = <Name extends keyof LiveEvents>(name: Name, take: (data: LiveEvents[Name]) => void) =>
      source.addEventListener(name, (event) => take(JSON.parse((event as MessageEvent<string>).data)));
    const connect = () => {
      source = new EventSource(runPath(run, "/events"));
      source.onopen = () =>
        change(({ metrics, trajectories, spans }) => ({
          connection: "live",
          metrics: metrics + 1,
          trajectories: trajectories + 1,
          spans: spans + 1,
        }));
      source.onerror = () => {
        change(({ connection }) => ({ connection: connection === "gone" ? "gone" : "lost" }));
        // An answer that is no stream ends the browser's own attempts.
        if (source.readyState === EventSource.CLOSED) timer = setTimeout(connect, RETRY_MS);
      };
      on("info", (info) => change(() => ({ info })));
      on("metrics", () => change(({ metrics }) => ({ metrics: metrics + 1 })));
      on("warnings", () => change(({ metrics }) => ({ metrics: metrics + 1 })));
      on("trajectories", () => change(({ trajectories }) => ({ trajectories: trajectories + 1 })));
      on("spans", () => change(({ spans }) => ({ spans: spans + 1 })));
      on("gone", ({ message }) => change(() => ({ connection: "gone", message })));
    };
    connect();
    return () => {
      clearTimeout(timer);
      source.close();
    };
  }, [run]);
  return live;
}
