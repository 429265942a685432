/**
 * Gathers single requests into batches.
 *
 * A batch starts when it is full, or `windowMs` after its first request. Requests that are called off before that are left
 * out; a batch that fails, fails for all that are in it. Waits for: the window. Freed by: the batch.
 */
import { abortedError } from "../bounded-pool.ts";

interface CollectorOptions<Item, Result> {
  readonly windowMs: number;
  /** The most a batch may weigh; a single item that is heavier is a batch of its own. */
  readonly maxWeight: number;
  readonly weightOf: (item: Item) => number;
  /** One result per item, in order. */
  readonly runBatch: (items: readonly Item[]) => readonly Result[];
}

interface BatchCollector<Item, Result> {
  add(item: Item, signal: AbortSignal): Promise<Result>;
  /** Runs what has been gathered. */
  flush(): void;
}

export function createBatchCollector<Item, Result>(
  options: CollectorOptions<Item, Result>,
): BatchCollector<Item, Result> {
  const { windowMs, maxWeight, weightOf, runBatch } = options;
  let waiting: Request<Item, Result>[] = [];
  let weight = 0;
  let timer: NodeJS.Timeout | undefined;

  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    const requests = waiting.filter(({ signal }) => !signal.aborted);
    for (const { reject } of waiting.filter(({ signal }) => signal.aborted)) reject(abortedError());
    waiting = [];
    weight = 0;
    if (requests.length > 0) settle(requests, runBatch);
  };

  return {
    add: (item, signal) =>
      new Promise((resolve, reject) => {
        if (waiting.length > 0 && weight + weightOf(item) > maxWeight) flush();
        waiting.push({ item, signal, resolve, reject });
        weight += weightOf(item);
        if (weight >= maxWeight) flush();
        else timer ??= setTimeout(flush, windowMs);
      }),
    flush,
  };
}

interface Request<Item, Result> {
  readonly item: Item;
  readonly signal: AbortSignal;
  readonly resolve: (result: Result) => void;
  readonly reject: (cause: unknown) => void;
}

function settle<Item, Result>(
  requests: readonly Request<Item, Result>[],
  runBatch: (items: readonly Item[]) => readonly Result[],
): void {
  try {
    const results = runBatch(requests.map(({ item }) => item));
    requests.forEach(({ resolve }, i) => void resolve(results[i]!));
  } catch (cause) {
    for (const { reject } of requests) reject(cause);
  }
}
