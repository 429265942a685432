/**
 * How a worker and the controller get to know each other on a new connection.
 *
 * Each proves that it has the token, without sending it: what goes over the wire is a hash of the token with random bytes of both sides.
 * The worker speaks first. Whoever is refused is told why before the connection ends.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import type { ErrorCode } from "../errors/error-codes.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { Frames } from "../workers/frames.ts";

/** What a worker says about itself. */
export interface WorkerFacts {
  /** The version of reroll that it runs. */
  readonly version: string;
  /** The number that a launcher gave it; null where it was started by hand. */
  readonly rank: number | null;
  readonly host: string;
  readonly pid: number;
  /** The device that it offers: "cpu", or a CUDA device. */
  readonly device: string;
  /** Cores that one rank may use. */
  readonly numCores: number;
  /** Its clock, in milliseconds since 1970. */
  readonly timeMs: number;
}

/**
 * A worker's side. Rejects with the reason where the controller refuses, or is not to be trusted.
 *
 * @param answerMs the time that one message may take
 */
export async function introduce(
  frames: Frames,
  facts: WorkerFacts,
  token: string,
  answerMs = ANSWER_MS,
): Promise<void> {
  const nonce = randomBytes(NONCE_BYTES).toString("hex");
  send(frames, { ...facts, nonce });
  const challenge = await receive(frames, challengeSchema, answerMs);
  if (!isProof(challenge.proof, token, `controller ${nonce} ${challenge.nonce}`)) {
    const error = otherToken();
    send(frames, refusal(error));
    throw error;
  }
  send(frames, { proof: proofOf(token, `worker ${nonce} ${challenge.nonce}`) });
  await receive(frames, welcomeSchema, answerMs);
}

/**
 * The controller's side. Resolves with who joined; rejects with the reason why it may not, which the worker is told too.
 *
 * @param admit throws where the worker may not join
 */
export async function receiveWorker(
  frames: Frames,
  token: string,
  admit: (facts: WorkerFacts) => void,
): Promise<WorkerFacts> {
  try {
    const { nonce: theirs, ...facts } = await receive(frames, helloSchema, ANSWER_MS);
    const nonce = randomBytes(NONCE_BYTES).toString("hex");
    send(frames, { nonce, proof: proofOf(token, `controller ${theirs} ${nonce}`) });
    const { proof } = await receive(frames, proofSchema, ANSWER_MS);
    if (!isProof(proof, token, `worker ${theirs} ${nonce}`)) throw otherToken();
    admit(facts);
    send(frames, { isWelcome: true });
    return facts;
  } catch (cause) {
    if (cause instanceof RerollError) send(frames, refusal(cause));
    throw cause;
  }
}

/** Throws where a token is too easily guessed, or there is none. */
export function expectToken(token: string | undefined): string {
  if (token !== undefined && token.length >= MIN_TOKEN) return token;
  const got = token === undefined || token === "" ? "is not set" : `has ${token.length} characters`;
  throw new RerollError(
    "MISSING_KEY",
    `REROLL_TOKEN ${got}. Processes on several machines know each other by it: export the same text of at least ${MIN_TOKEN} characters ` +
      "on every machine, such as that of: openssl rand -hex 16",
  );
}

const NONCE_BYTES = 16;
const MIN_TOKEN = 16;

/** The longest time that one message of the handshake may take. */
export const ANSWER_MS = 10_000;

const nonce = z.string().length(2 * NONCE_BYTES);
const helloSchema = z.strictObject({
  nonce,
  version: z.string().max(64),
  rank: z.int().nonnegative().nullable(),
  host: z.string().max(255),
  pid: z.int(),
  device: z.string().max(64),
  numCores: z.int().positive(),
  timeMs: z.number(),
});
const challengeSchema = z.strictObject({ nonce, proof: z.string() });
const proofSchema = z.strictObject({ proof: z.string() });
const welcomeSchema = z.strictObject({ isWelcome: z.literal(true) });
const refusalSchema = z.strictObject({ code: z.string(), refused: z.string() });

function send(frames: Frames, message: object): void {
  frames.send(Buffer.from(JSON.stringify(message)));
}

function refusal({ code, message }: RerollError): object {
  return { code, refused: message };
}

/** The next message. Rejects where it is a refusal, is no such message, or does not come. */
async function receive<Message>(frames: Frames, schema: z.ZodType<Message>, answerMs: number): Promise<Message> {
  const frame = await nextFrame(frames, answerMs);
  const json = parseJson(frame);
  const { data: refused } = refusalSchema.safeParse(json);
  if (refused !== undefined) throw new RerollError(refused.code as ErrorCode, refused.refused);
  const { data } = schema.safeParse(json);
  if (data === undefined) throw stranger("answered something else");
  return data;
}

function nextFrame(frames: Frames, answerMs: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const limit = setTimeout(
      () => reject(stranger(`did not answer for ${answerMs / 1000} seconds`, { isSilent: true })),
      answerMs,
    );
    frames.onEnd((how) => {
      clearTimeout(limit);
      reject(stranger(how, { isDropped: true }));
    });
    frames.listen((frame) => {
      frames.listen(null);
      clearTimeout(limit);
      resolve(frame);
    });
  });
}

function parseJson(frame: Buffer): unknown {
  try {
    return JSON.parse(frame.toString());
  } catch {
    return null;
  }
}

function stranger(
  how: string,
  details: { readonly isDropped?: boolean; readonly isSilent?: boolean } = {},
): RerollError {
  return new RerollError(
    "JOIN_REFUSED",
    `The other side ${how} when it was asked who it is. Is it reroll, and does it use TLS as this side does?`,
    details,
  );
}

function otherToken(): RerollError {
  return new RerollError(
    "KEY_INVALID",
    "Worker and controller have different tokens. REROLL_TOKEN must be the same on all machines.",
  );
}

function proofOf(token: string, text: string): string {
  return createHmac("sha256", token).update(text).digest("hex");
}

function isProof(proof: string, token: string, text: string): boolean {
  const [given, right] = [Buffer.from(proof), Buffer.from(proofOf(token, text))];
  return given.length === right.length && timingSafeEqual(given, right);
}
