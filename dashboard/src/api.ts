/** Answers of the server, for components. */
import { useEffect, useState } from "preact/hooks";
import type { ErrorAnswer } from "../../src/dashboard/answers.ts";
import { answerFromFile, isExported } from "./exported.ts";

/** What is known of an answer. What came before stays until the next is there. */
export interface Answer<Data> {
  readonly data?: Data;
  /** What went wrong, in words. */
  readonly error?: string;
}

/** The address of something of a run. */
export function runPath(run: string, rest = "", query: Readonly<Record<string, Values>> = {}): string {
  const search = new URLSearchParams();
  for (const [name, values] of Object.entries(query)) {
    for (const value of Array.isArray(values) ? values : [values]) {
      if (value !== undefined && value !== "") search.append(name, String(value));
    }
  }
  return `api/runs/${encodeURIComponent(run)}${rest}?${search}`;
}

type Values = string | number | undefined | readonly string[];

/** Fetches, and throws what the server says went wrong. */
export async function fetchAnswer<Data>(path: string, signal?: AbortSignal): Promise<Data> {
  if (isExported) return answerFromFile(path) as Data;
  const response = await fetch(path, signal === undefined ? {} : { signal }).catch((cause: unknown) => {
    if (signal?.aborted) throw cause;
    throw new Error("The dashboard does not answer. Is it still running?");
  });
  if (response.ok) return (await response.json()) as Data;
  const { error }: Partial<ErrorAnswer> = await response.json().catch(() => ({}));
  throw new Error(error?.message ?? `The dashboard answered with ${response.status}.`);
}

/** The answer at a path, again whenever the path or the revision changes; null asks for nothing. */
export function useAnswer<Data>(path: string | null, revision = 0): Answer<Data> {
  const [answer, setAnswer] = useState<Answer<Data>>({});
  // A new revision asks for the same path again.
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    fetchAnswer<Data>(path, stop.signal).then(
      (data) => setAnswer({ data }),
      (error: Error) => {
        if (!stop.signal.aborted) setAnswer((before) => ({ ...before, error: error.message }));
      },
    );
    return () => stop.abort();
  }, [path, revision]);
  return answer;
}

/** A number that grows every so often, for what is asked for again and again. */
export function useTicks(everyMs: number): number {
  const [ticks, setTicks] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTicks((before) => before + 1), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return ticks;
}
