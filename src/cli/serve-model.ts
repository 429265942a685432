/** From the words of a command line to a served model. */
import { basename, resolve } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { startThreadedEngine } from "../generation/local/threaded-engine.ts";
import { loadTokenizer } from "../models/tokenizer/load-tokenizer.ts";
import { isCudaAvailable } from "../torch/cuda.ts";
import { type RunningServe, serve } from "./serve.ts";

/** Options as a person types them: all of them text. */
export interface ServeModelOptions {
  readonly port?: string | undefined;
  readonly host?: string | undefined;
  readonly apiKey?: string | undefined;
  readonly name?: string | undefined;
  readonly device?: string | undefined;
  readonly dtype?: string | undefined;
  readonly context?: string | undefined;
  readonly maxRunning?: string | undefined;
  readonly signal?: AbortSignal;
}

/** Loads a model folder into an engine in its own thread, and serves it. */
export async function serveModel(folder: string, options: ServeModelOptions): Promise<RunningServe> {
  const path = resolve(folder);
  const tokenizer = await loadTokenizer(path);
  const contextLength = wholeNumber("--context", options.context);
  const maxRunning = wholeNumber("--max-running", options.maxRunning);
  const engine = await startThreadedEngine({
    folder: path,
    tokenizerFolder: path,
    device: options.device ?? (isCudaAvailable() ? "cuda" : "cpu"),
    ...(options.dtype === undefined ? {} : { dtype: dtypeOf(options.dtype) }),
    options: {
      ...(contextLength === undefined ? {} : { contextLength }),
      ...(maxRunning === undefined ? {} : { maxRunning }),
    },
  });
  return serve({
    engine,
    tokenizer,
    modelName: options.name ?? basename(path),
    port: wholeNumber("--port", options.port) ?? 8000,
    ...(options.host === undefined ? {} : { host: options.host }),
    ...(options.apiKey === undefined ? {} : { apiKey: options.apiKey }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
}

function wholeNumber(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0) return value;
  throw new RerollError("INVALID_ARGUMENT", `${flag} takes a whole number: got "${text}".`);
}

function dtypeOf(text: string): "float32" | "bfloat16" | "float16" {
  if (text === "float32" || text === "bfloat16" || text === "float16") return text;
  throw new RerollError("INVALID_ARGUMENT", `--dtype takes float32, bfloat16 or float16: got "${text}".`);
}
