/**
 * What a tool is: a function that the model calls by name, with arguments as JSON, and that answers in text.
 *
 * A tool that cannot do what it was asked answers with `kind: "error"`: the model reads why and may try again. A tool that
 * throws is broken, and fails the episode.
 */
import type { ChatTool } from "../../flow/chat-message.ts";

/** A function that the model may call. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  /** A JSON schema of the arguments. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly call: (given: ToolArguments, signal: AbortSignal) => ToolResult | Promise<ToolResult>;
}

/** What the model wrote, unchecked. */
export type ToolArguments = Readonly<Record<string, unknown>>;

/** What the model reads. An error is shown as one. */
export interface ToolResult {
  readonly kind: "ok" | "error";
  readonly text: string;
}

/** Tools that come from one place, and what frees it. */
export interface ToolSource {
  readonly tools: readonly Tool[];
  close?(): Promise<void>;
}

/** The tool as chat templates read it. */
export function toChatTool({ name, description, parameters }: Tool): ChatTool {
  return { type: "function", function: { name, description, parameters } };
}

/** Calls a tool. One that takes longer than the limit is told to stop, and the model is told that it took too long. */
export async function callTool(
  tool: Tool,
  given: ToolArguments,
  { signal, timeoutMs }: { readonly signal: AbortSignal; readonly timeoutMs: number },
): Promise<ToolResult> {
  signal.throwIfAborted();
  const call = new AbortController();
  let isTooLong = false;
  const timer = setTimeout(() => {
    isTooLong = true;
    call.abort();
  }, timeoutMs);
  const end = () => call.abort(signal.reason);
  signal.addEventListener("abort", end, { once: true });
  try {
    return await Promise.race([tool.call(given, call.signal), rejectOnAbort(call.signal)]);
  } catch (error) {
    signal.throwIfAborted();
    if (isTooLong) return { kind: "error", text: `${tool.name} took longer than ${timeoutMs} ms.` };
    throw error;
  } finally {
    // Taken back: AbortSignal.timeout would keep each of many calls in memory until its time is up.
    clearTimeout(timer);
    signal.removeEventListener("abort", end);
  }
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
