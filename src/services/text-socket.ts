/**
 * A WebSocket for texts, as RFC 6455 has it: Node has none of its own before version 22.
 *
 * Messages come in order, each taken once by `receive`. A socket that breaks rejects whatever waits on it, and all later calls.
 */
import { createHash, randomBytes } from "node:crypto";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { RerollError } from "../errors/reroll-error.ts";
import { splitAddress } from "../errors/secret.ts";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const TEXT = 1;
const CLOSE = 8;
const PING = 9;
const PONG = 10;

/** Larger than any observation. */
const MAX_MESSAGE_BYTES = 128 * 2 ** 20;

export class TextSocket {
  readonly url: string;
  readonly #socket: Socket;
  #unread: Buffer;
  #parts: Buffer[] = [];
  readonly #messages: string[] = [];
  readonly #waiting: { readonly resolve: (text: string) => void; readonly reject: (cause: unknown) => void }[] = [];
  #brokenBy: RerollError | null = null;

  private constructor(url: string, socket: Socket, head: Buffer) {
    this.url = url;
    this.#socket = socket;
    this.#unread = head;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("error", (cause) => this.#break(cause.message));
    socket.on("close", () => this.#break("the connection was closed"));
    this.#take(Buffer.alloc(0));
  }

  /** @param url such as http://127.0.0.1:8000/ws */
  static connect(url: string, signal: AbortSignal, apiKey?: string): Promise<TextSocket> {
    const address = splitAddress(url.replace(/^ws/, "http"));
    const key = randomBytes(16).toString("base64");
    const headers = {
      ...address.headers,
      ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
      ...{ connection: "Upgrade", upgrade: "websocket", "sec-websocket-key": key, "sec-websocket-version": "13" },
    };
    return new Promise((resolve, reject) => {
      const ask = address.url.startsWith("https:") ? httpsRequest : httpRequest;
      const request = ask(address.url, { headers, signal, agent: false });
      request.on("error", (cause) => reject(signal.aborted ? signal.reason : broken(address.url, cause.message)));
      request.on("response", (answer: IncomingMessage) => {
        answer.resume();
        reject(broken(address.url, `it answered ${answer.statusCode} instead of opening a WebSocket`));
      });
      request.on("upgrade", (answer: IncomingMessage, socket: Socket, head: Buffer) => {
        const expected = createHash("sha1")
          .update(key + GUID)
          .digest("base64");
        if (answer.headers["sec-websocket-accept"] === expected)
          return resolve(new TextSocket(address.url, socket, head));
        socket.destroy();
        reject(broken(address.url, "it answered with a key that is not ours"));
      });
      request.end();
    });
  }

  send(text: string): void {
    if (this.#brokenBy !== null) throw this.#brokenBy;
    this.#write(TEXT, Buffer.from(text, "utf8"));
  }

  /** The next message. */
  receive(signal: AbortSignal): Promise<string> {
    const ready = this.#messages.shift();
    if (ready !== undefined) return Promise.resolve(ready);
    if (this.#brokenBy !== null) return Promise.reject(this.#brokenBy);
    return new Promise((resolve, reject) => {
      const abort = () => {
        // What comes later would be taken for the answer to something else.
        this.#break("its answer was not waited for");
        this.#socket.destroy();
      };
      const settle =
        <Value>(how: (value: Value) => void) =>
        (value: Value) => {
          signal.removeEventListener("abort", abort);
          how(value);
        };
      this.#waiting.push({ resolve: settle(resolve), reject: settle(reject) });
      signal.addEventListener("abort", abort, { once: true });
      if (signal.aborted) abort();
    });
  }

  close(): void {
    if (this.#brokenBy === null) this.#write(CLOSE, Buffer.of(3, 232));
    this.#break("it was closed here");
    this.#socket.end();
    this.#socket.unref();
  }

  /** Clients mask what they send. */
  #write(opcode: number, payload: Buffer): void {
    const { length } = payload;
    const head =
      length < 126
        ? Buffer.of(0x80 | opcode, 0x80 | length)
        : length < 65_536
          ? Buffer.of(0x80 | opcode, 0x80 | 126, length >> 8, length & 255)
          : Buffer.concat([Buffer.of(0x80 | opcode, 0x80 | 127), bigEndian(length)]);
    const mask = randomBytes(4);
    const masked = Buffer.from(payload);
    for (let i = 0; i < length; i++) masked[i]! ^= mask[i & 3]!;
    this.#socket.write(Buffer.concat([head, mask, masked]));
  }

  #take(chunk: Buffer): void {
    this.#unread = Buffer.concat([this.#unread, chunk]);
    for (let frame = readFrame(this.#unread); frame !== null; frame = readFrame(this.#unread)) {
      this.#unread = this.#unread.subarray(frame.size);
      this.#handle(frame);
    }
    if (this.#unread.length > MAX_MESSAGE_BYTES) this.#break("it sent a message of more than 128 MB");
  }

  #handle({ opcode, isLast, payload }: Frame): void {
    if (opcode === PING) this.#write(PONG, payload);
    else if (opcode === CLOSE)
      this.#break(`it closed the connection: ${payload.subarray(2).toString("utf8") || "no reason given"}`);
    else if (opcode !== PONG) {
      this.#parts.push(payload);
      if (!isLast) return;
      const text = Buffer.concat(this.#parts).toString("utf8");
      this.#parts = [];
      const waiting = this.#waiting.shift();
      if (waiting === undefined) this.#messages.push(text);
      else waiting.resolve(text);
    }
  }

  #break(reason: string): void {
    this.#brokenBy ??= broken(this.url, reason);
    for (const { reject } of this.#waiting.splice(0)) reject(this.#brokenBy);
  }
}

interface Frame {
  readonly opcode: number;
  readonly isLast: boolean;
  readonly payload: Buffer;
  /** Bytes of the whole frame. */
  readonly size: number;
}

/** The frame at the beginning of what has come; null while it is not all there. Servers do not mask. */
function readFrame(bytes: Buffer): Frame | null {
  if (bytes.length < 2) return null;
  const short = bytes[1]! & 127;
  const start = short === 126 ? 4 : short === 127 ? 10 : 2;
  if (bytes.length < start) return null;
  const length = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
  if (bytes.length < start + length) return null;
  const payload = bytes.subarray(start, start + length);
  return { opcode: bytes[0]! & 15, isLast: (bytes[0]! & 128) !== 0, payload, size: start + length };
}

function bigEndian(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}

function broken(url: string, reason: string): RerollError {
  return new RerollError("SERVICE_LOST", `${url} is lost: ${reason}.`, { url });
}
