/** What the server counts, under the names that dashboards read. */
import type { ServedEngine } from "../engine.ts";
import { Counter, Histogram, renderCount, renderGauge } from "./metrics.ts";
import type { Sessions } from "./sessions.ts";

const LATENCY_BOUNDS = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300];

export class ServerMetrics {
  readonly requests = new Counter(
    "reroll_http_requests_total",
    "HTTP requests by route and status. 499: the client hung up.",
  );
  readonly promptTokens = new Counter("reroll_prompt_tokens_total", "Tokens of prompts, counted once per request.");
  readonly replyTokens = new Counter("reroll_reply_tokens_total", "Tokens of replies.");
  readonly prefixes = new Counter(
    "reroll_prefix_checks_total",
    "Calls of sessions by what their prompt did: new, extended, forked.",
  );
  readonly splicedReplies = new Counter(
    "reroll_spliced_replies_total",
    "Earlier replies whose own tokens were put into a prompt.",
  );
  readonly changedReplies = new Counter(
    "reroll_changed_replies_total",
    "Earlier replies that the chat template did not render as written.",
  );
  readonly ignoredFields = new Counter(
    "reroll_ignored_fields_total",
    "Requests with a field that the server does not know.",
  );
  readonly duration = new Histogram(
    "reroll_request_seconds",
    "Time from a request for tokens to its last one.",
    LATENCY_BOUNDS,
  );
  readonly firstToken = new Histogram(
    "reroll_first_token_seconds",
    "Time from a request for tokens to the first one.",
    LATENCY_BOUNDS,
  );

  render(engine: ServedEngine, sessions: Sessions, inFlight: number): string {
    const status = engine.status();
    const { counters } = status;
    return [
      ...[this.requests, this.promptTokens, this.replyTokens, this.prefixes, this.splicedReplies],
      ...[this.changedReplies, this.ignoredFields, sessions.ended, sessions.dropped],
      ...[this.duration, this.firstToken],
    ]
      .map((metric) => metric.render())
      .concat(
        renderGauge("reroll_in_flight_requests", "Requests for tokens that are being answered.", inFlight),
        renderGauge("reroll_open_sessions", "Sessions without an end.", sessions.numOpen),
        renderGauge("reroll_finished_sessions", "Ended sessions that nobody has taken yet.", sessions.numFinished),
        renderGauge("reroll_engine_version", "Version of the weights.", status.version),
        renderGauge("reroll_engine_paused", "1 while the engine is paused.", status.isPaused ? 1 : 0),
        renderGauge("reroll_engine_queued_requests", "Requests that wait in the engine.", status.queuedRequests),
        renderGauge("reroll_engine_running_requests", "Requests that the engine works on.", status.runningRequests),
        renderGauge("reroll_engine_cache_usage", "Part of the key/value cache in use.", status.cacheUsage),
        renderCount(
          "reroll_engine_prefilled_tokens_total",
          "Prompt tokens through the model.",
          counters.prefilledTokens,
        ),
        renderCount("reroll_engine_cached_tokens_total", "Prompt tokens found in the cache.", counters.cachedTokens),
        renderCount("reroll_engine_generated_tokens_total", "Tokens drawn.", counters.generatedTokens),
        renderCount("reroll_engine_steps_total", "Steps of the engine.", counters.steps),
        renderCount("reroll_engine_aborted_total", "Requests that were aborted.", counters.aborted),
        renderCount("reroll_engine_failed_total", "Requests that failed.", counters.failed),
      )
      .join("");
  }
}
