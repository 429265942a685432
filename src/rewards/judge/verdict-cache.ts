/**
 * Verdicts that were given before, by the content of the question.
 *
 * In memory, and where a file is named also there: one JSON line each, read at the start and appended to. A last line that
 * was cut off by a crash is skipped; any other broken line is an error, because then the file is not ours.
 */
import { createHash } from "node:crypto";
import { appendFile, readFile } from "node:fs/promises";
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";

interface VerdictCache {
  get(key: string): number | undefined;
  /** Settles when the verdict is in the file. */
  set(key: string, verdict: number): Promise<void>;
  /** Settles when every verdict is in the file. */
  flush(): Promise<void>;
}

/** The key of a question: any change of the model, the settings or the texts gives another. */
export function verdictKey(question: unknown): string {
  return createHash("sha256").update(JSON.stringify(question)).digest("hex");
}

export async function openVerdictCache(path: string | undefined): Promise<VerdictCache> {
  const verdicts = path === undefined ? new Map<string, number>() : await readVerdicts(path);
  let lastWrite = Promise.resolve();
  return {
    get: (key) => verdicts.get(key),
    set: (key, verdict) => {
      verdicts.set(key, verdict);
      if (path === undefined) return Promise.resolve();
      lastWrite = lastWrite.then(() => appendFile(path, `${JSON.stringify({ key, verdict })}\n`));
      return lastWrite;
    },
    flush: () => lastWrite,
  };
}

const lineSchema = z.object({ key: z.string(), verdict: z.number() });

async function readVerdicts(path: string): Promise<Map<string, number>> {
  const text = await readFile(path, "utf8").catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === "ENOENT") return "";
    throw cause;
  });
  const verdicts = new Map<string, number>();
  const lines = text.split("\n");
  // What follows the last line break was cut off, or is empty.
  const rest = lines.pop() ?? "";
  if (rest !== "") await appendFile(path, "\n");
  lines.forEach((line, i) => {
    const parsed = lineSchema.safeParse(parseJson(line));
    if (parsed.success) verdicts.set(parsed.data.key, parsed.data.verdict);
    else if (!isCutOff(line)) throw notOurs(path, i + 1, line);
  });
  return verdicts;
}

/** Whether a broken line is the start of one of ours, which a crash left behind. */
function isCutOff(line: string): boolean {
  const start = '{"key":"';
  return line.startsWith(start) || start.startsWith(line);
}

function notOurs(path: string, line: number, text: string): RerollError {
  return new RerollError(
    "INVALID_CACHE",
    `cacheFile ${path} has no verdict in line ${line}: got ${JSON.stringify(text.slice(0, 100))}. Name another file; this one is left as it is.`,
    { path, line },
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
