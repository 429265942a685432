/**
 * Stand-ins for the servers of other projects, with the fields that their sources have (read in August 2026), over a
 * scripted engine. They answer what the remote engines ask for and nothing more.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { ServedEngine } from "../../src/generation/engine.ts";
import type { Generation, SampledTokens, Sampling } from "../../src/generation/generate.ts";

export interface FakeServer {
  readonly url: string;
  /** The bodies of the requests for tokens, oldest first. */
  readonly bodies: readonly Body[];
  /** Ends every connection, as a server does that starts again. */
  dropConnections(): void;
  close(): Promise<void>;
}

export type Body = Readonly<Record<string, unknown>>;

export type Handler = (body: Body, response: ServerResponse, signal: AbortSignal) => Promise<void>;

/** What a server has beside the routes for tokens, by path and query. */
export type MoreRoutes = Readonly<Record<string, Handler>>;

/** Anything that draws tokens. */
type Drawing = Pick<ServedEngine, "generate" | "status">;

/** vLLM. `raw` is its default: log-probs of the model, whatever the sampling. */
export function startFakeVllm(
  engine: Drawing,
  logprobsMode: "raw" | "processed",
  more: MoreRoutes = {},
  adapters: () => readonly string[] = () => [],
): Promise<FakeServer> {
  const { contextLength } = engine.status();
  const complete: Handler = async (body, response, signal) => {
    const promptIds = body.prompt as number[];
    if (body.model !== "tiny" && !adapters().includes(String(body.model))) {
      sendError(response, 404, `The model \`${String(body.model)}\` does not exist.`);
      return;
    }
    if (promptIds.length + Number(body.max_tokens) > contextLength) {
      sendError(
        response,
        400,
        `This model's maximum context length is ${contextLength} tokens. However, you requested more.`,
      );
      return;
    }
    const numTopLogprobs = Number(body.logprobs);
    const event = (tokens: SampledTokens, more: object) => {
      const isProcessed = logprobsMode === "processed" && body.temperature !== 0;
      const logprobs = isProcessed ? tokens.drawLogprobs : tokens.modelLogprobs;
      const names = Array.from(tokens.tokenIds, (id) => `token_id:${id}`);
      const fields = {
        ...{ index: 0, text: "", finish_reason: null, stop_reason: null, token_ids: [...tokens.tokenIds], ...more },
        logprobs: {
          tokens: names,
          token_logprobs: [...logprobs],
          // The drawn token comes first, then the likeliest.
          top_logprobs: names.map((name, index) => ({
            [name]: logprobs[index],
            ...Object.fromEntries(
              (tokens.topLogprobs?.[index] ?? []).map((other) => [`token_id:${other.tokenId}`, other.logprob]),
            ),
          })),
        },
      };
      response.write(`data: ${JSON.stringify({ id: "cmpl-1", object: "text_completion", choices: [fields] })}\n\n`);
    };
    const sampling = { ...openAiSampling(body), stopIds: body.stop_token_ids as number[] };
    const generation = await engine.generate({
      promptIds,
      sampling,
      numTopLogprobs,
      signal,
      onTokens: (tokens) => event(tokens, {}),
    });
    event(noTokens, vllmFinish(generation));
    const usage = { prompt_tokens: promptIds.length, completion_tokens: generation.tokenIds.length };
    response.end(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
  };
  return start({ "/v1/models": modelsHandler(contextLength), "/v1/completions": complete, ...more });
}

/**
 * SGLang. Log-probs are those after temperature; in a stream every event has all tokens so far.
 *
 * @param weightVersion what replies say about the weights
 */
export function startFakeSglang(
  engine: Drawing,
  more: MoreRoutes = {},
  weightVersion: () => string = () => "3",
  adapters: () => readonly string[] = () => [],
): Promise<FakeServer> {
  const { contextLength } = engine.status();
  const running = new Map<string, AbortController>();
  const generate: Handler = async (body, response) => {
    const promptIds = body.input_ids as number[];
    const params = body.sampling_params as Body;
    if (body.lora_path !== undefined && !adapters().includes(String(body.lora_path))) {
      sendError(response, 400, `The following requested LoRA adapters are not loaded: {'${String(body.lora_path)}'}.`);
      return;
    }
    if (promptIds.length + Number(params.max_new_tokens) > contextLength) {
      sendError(
        response,
        400,
        `Requested token count exceeds the model's maximum context length of ${contextLength} tokens.`,
      );
      return;
    }
    const controller = new AbortController();
    running.set(String(body.rid), controller);
    const seen: SampledTokens[] = [];
    const numTopLogprobs = Number(body.top_logprobs_num);
    const generation = await engine.generate({
      promptIds,
      sampling: {
        ...openAiSampling(params),
        maxTokens: Number(params.max_new_tokens),
        ...seedOf(params.sampling_seed),
        stopIds: params.stop_token_ids as number[],
      },
      ...{ numTopLogprobs, signal: controller.signal },
      onTokens(tokens) {
        seen.push(tokens);
        if (body.stream) response.write(`data: ${JSON.stringify(sglangOutput(seen, body, null, weightVersion()))}\n\n`);
      },
    });
    running.delete(String(body.rid));
    const output = JSON.stringify(sglangOutput(seen, body, sglangFinish(generation), weightVersion()));
    response.end(body.stream ? `data: ${output}\n\ndata: [DONE]\n\n` : output);
  };
  const abort: Handler = async (body, response) => {
    running.get(String(body.rid))?.abort();
    response.end();
  };
  return start({ "/v1/models": modelsHandler(contextLength), "/generate": generate, "/abort_request": abort, ...more });
}

/** The llama.cpp server. `hiddenIds` are tokens that it leaves out of its log-probs, as it does inside of characters. */
export function startFakeLlamaCpp(engine: Drawing, hiddenIds: readonly number[] = []): Promise<FakeServer> {
  const { contextLength } = engine.status();
  const complete: Handler = async (body, response, signal) => {
    const sampling: Sampling = {
      ...openAiSampling(body),
      maxTokens: Number(body.n_predict),
      topK: Number(body.top_k),
      repetitionPenalty: Number(body.repeat_penalty),
      logitBias: new Map((body.logit_bias as [number, number][] | undefined) ?? []),
    };
    const generation = await engine.generate({
      ...{ promptIds: body.prompt as number[], sampling, signal, numTopLogprobs: Number(body.n_probs) },
    });
    const tokens = [...generation.tokenIds];
    const probabilities = tokens.map((id, index) => ({
      ...{ id, token: "", bytes: [], prob: Math.fround(Math.exp(generation.drawLogprobs[index]!)) },
      top_probs: generation.topLogprobs?.[index]?.map(({ tokenId, logprob }) => ({
        id: tokenId,
        prob: Math.exp(logprob),
      })),
    }));
    const completion = {
      ...{ content: "", tokens, stop: true, stop_type: "limit", tokens_evaluated: 3, timings: { cache_n: 2 } },
      completion_probabilities: probabilities.filter(({ id }) => !hiddenIds.includes(id)),
    };
    response.end(JSON.stringify(completion));
  };
  const props: Handler = async (_body, response) => {
    response.end(JSON.stringify({ default_generation_settings: { n_ctx: contextLength }, model_path: "tiny.gguf" }));
  };
  return start({ "/props": props, "/completion": complete });
}

/** How likely a model finds the tokens of a prompt, and how the server writes a token. */
export interface Scorer {
  readonly score: (promptIds: Int32Array) => Promise<Float32Array>;
  readonly textOf: (tokenId: number) => string;
}

/** vLLM asked for prompt_logprobs: per token an object by id with logprob, rank and decoded_token; null for the first. */
export function startFakeVllmTeacher({ score, textOf }: Scorer): Promise<FakeServer> {
  const complete: Handler = async (body, response) => {
    const promptIds = body.prompt as number[];
    if (body.prompt_logprobs !== 0 || body.stream === true) return sendError(response, 400, "not asked as a teacher");
    const logprobs = await score(Int32Array.from(promptIds));
    const listed = promptIds.map((id, i) =>
      i === 0 ? null : { [id]: { logprob: logprobs[i], rank: 1 + (id % 7), decoded_token: textOf(id) } },
    );
    const choice = { index: 0, text: "", logprobs: null, finish_reason: "length", stop_reason: null };
    response.end(
      JSON.stringify({
        ...{ id: "cmpl-1", object: "text_completion", created: 1, model: "tiny" },
        choices: [{ ...choice, prompt_logprobs: listed }],
        usage: { prompt_tokens: promptIds.length, completion_tokens: 1, total_tokens: promptIds.length + 1 },
      }),
    );
  };
  return start({ "/v1/models": modelsHandler(4096), "/v1/completions": complete });
}

/** SGLang asked for input log-probs: [log-prob, id, text] per token, the first one without a log-prob. */
export function startFakeSglangTeacher({ score, textOf }: Scorer): Promise<FakeServer> {
  const generate: Handler = async (body, response) => {
    const promptIds = body.input_ids as number[];
    if (body.return_logprob !== true || body.logprob_start_len !== 0)
      return sendError(response, 400, "not asked as a teacher");
    const logprobs = await score(Int32Array.from(promptIds));
    const hasText = body.return_text_in_logprobs === true;
    const listed = promptIds.map((id, i) => [i === 0 ? null : logprobs[i], id, hasText ? textOf(id) : null]);
    const info = { id: "1", finish_reason: { type: "length", length: 0 }, prompt_tokens: promptIds.length };
    const counts = { completion_tokens: 0, cached_tokens: 0 };
    response.end(
      JSON.stringify({
        text: "",
        meta_info: { ...info, ...counts, input_token_logprobs: listed, output_token_logprobs: [] },
      }),
    );
  };
  return start({ "/v1/models": modelsHandler(4096), "/generate": generate });
}

async function start(handlers: Readonly<Record<string, Handler>>): Promise<FakeServer> {
  const bodies: Body[] = [];
  const server = createServer(async (request, response) => {
    response.on("error", () => {});
    const handler = handlers[request.url ?? ""];
    const text = await readBody(request);
    if (handler === undefined) return sendError(response, 404, "Not Found");
    const body = text === "" ? {} : (JSON.parse(text) as Body);
    if (text !== "") bodies.push(body);
    const controller = new AbortController();
    response.on("close", () => controller.abort());
    await handler(body, response, controller.signal).catch((cause: Error) => sendError(response, 400, cause.message));
  });
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    bodies,
    // Those that nothing was asked on, too.
    dropConnections: () => {
      for (const socket of sockets) socket.destroy();
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

function modelsHandler(contextLength: number): Handler {
  return async (_body, response) => {
    response.end(JSON.stringify({ object: "list", data: [{ id: "tiny", max_model_len: contextLength }] }));
  };
}

function openAiSampling(body: Body): Sampling {
  const bias = Array.isArray(body.logit_bias) ? [] : Object.entries((body.logit_bias as Record<string, number>) ?? {});
  return {
    maxTokens: Number(body.max_tokens),
    temperature: Number(body.temperature),
    topP: Number(body.top_p),
    topK: Math.max(0, Number(body.top_k)),
    minP: Number(body.min_p),
    repetitionPenalty: Number(body.repetition_penalty ?? 1),
    logitBias: new Map(bias.map(([id, value]) => [Number(id), value])),
    stopStrings: (body.stop as string[] | undefined) ?? [],
    ...seedOf(body.seed),
  };
}

function seedOf(seed: unknown): { seed?: number } {
  return typeof seed === "number" ? { seed } : {};
}

function vllmFinish({ finish }: Generation): object {
  if (finish.kind === "stop") {
    return { finish_reason: "stop", stop_reason: finish.by === "token" ? finish.tokenId : finish.text };
  }
  return { finish_reason: finish.kind === "length" ? "length" : "abort" };
}

function sglangFinish({ finish }: Generation): object {
  if (finish.kind === "stop") return { type: "stop", matched: finish.by === "token" ? finish.tokenId : finish.text };
  return finish.kind === "length" ? { type: "length", length: 0 } : { type: "abort", message: "Aborted" };
}

function sglangOutput(
  seen: readonly SampledTokens[],
  body: Body,
  finishReason: object | null,
  weightVersion: string,
): object {
  const ids = seen.flatMap((tokens) => [...tokens.tokenIds]);
  const sampler = seen.flatMap((tokens) => [...tokens.samplerLogprobs]);
  const draw = seen.flatMap((tokens) => [...tokens.drawLogprobs]);
  const model = seen.flatMap((tokens) => [...tokens.modelLogprobs]);
  const params = body.sampling_params as Body;
  const isGreedy = params.temperature === 0;
  const reported = isGreedy ? model : sampler;
  return {
    text: "",
    output_ids: ids,
    meta_info: {
      ...{
        id: body.rid,
        completion_tokens: ids.length,
        cached_tokens: 1,
        weight_version: weightVersion,
        finish_reason: finishReason,
      },
      output_token_logprobs: ids.map((id, index) => [reported[index], id, null]),
      ...(body.return_sampling_mask === true && {
        output_token_sampling_logprobs: isGreedy ? draw.map(() => 0) : draw,
      }),
      output_top_logprobs: seen.flatMap((tokens) =>
        (tokens.topLogprobs ?? []).map((likeliest) =>
          likeliest.map(({ tokenId, logprob }) => [logprob, tokenId, null]),
        ),
      ),
    },
  };
}

const noTokens: SampledTokens = {
  tokenIds: Int32Array.of(),
  samplerLogprobs: Float32Array.of(),
  drawLogprobs: Float32Array.of(),
  modelLogprobs: Float32Array.of(),
  versions: Int32Array.of(),
  cacheVersions: Int32Array.of(),
};

function sendError(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status).end(JSON.stringify({ error: { message, type: "BadRequestError", code: status } }));
}

async function readBody(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += chunk;
  return text;
}
