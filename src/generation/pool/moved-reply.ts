/**
 * A reply that may move from one engine to another: what has been drawn, and what is still to be asked for.
 *
 * Tokens keep their log-probs and versions. A draw depends on the seed and on the position in the sequence, so what the next engine
 * draws is what the first would have drawn.
 */
import { joinIds } from "../../flow/join-arrays.ts";
import { joinTokens, type SampledTokens } from "../../flow/sampled-tokens.ts";
import type { Finish, GenerateRequest, Generation, Sampling } from "../generate.ts";

export class MovedReply {
  readonly #request: GenerateRequest;
  readonly #contextLength: () => number;
  /** Drawn by engines that were lost. */
  #drawn: SampledTokens[] = [];
  /** Drawn by the present one, as far as it has said. */
  #current: SampledTokens[] = [];

  /** @param contextLength asked only where an engine is lost: with many of them the answer takes a while */
  constructor(request: GenerateRequest, contextLength: () => number) {
    this.#request = request;
    this.#contextLength = contextLength;
  }

  /** Number of tokens that were drawn before the present engine was asked. */
  get numDrawn(): number {
    return count(this.#drawn);
  }

  /** What is still to be asked for. */
  get remaining(): GenerateRequest {
    const { promptIds, sampling } = this.#request;
    if (this.#drawn.length === 0) return this.#request;
    return {
      ...this.#request,
      promptIds: joinIds([Int32Array.from(promptIds), ...this.#drawn.map(({ tokenIds }) => tokenIds)]),
      sampling: { ...sampling, maxTokens: sampling.maxTokens - this.numDrawn },
    };
  }

  /** The same, for an engine that may be lost: what it draws is noted as it comes. */
  get rest(): GenerateRequest {
    const { onTokens } = this.#request;
    this.#current = [];
    return {
      ...this.remaining,
      onTokens: (tokens) => {
        this.#current.push(tokens);
        onTokens?.(tokens);
      },
    };
  }

  /** The engine is lost. Returns how the reply ends where another engine cannot go on with it; null where one can. */
  move(lost: Generation): Finish | null {
    this.#drawn.push(...this.#current);
    this.#current = [];
    return this.#goOn(lost);
  }

  /** The engine broke the reply off, and brings what it has drawn. Returns what `move` returns. */
  interrupt(broken: Generation): Finish | null {
    if (broken.tokenIds.length > 0) this.#drawn.push(broken);
    return this.#goOn(broken);
  }

  #goOn(lost: Generation): Finish | null {
    const { sampling, signal, promptIds, onTokens } = this.#request;
    const numDrawn = count(this.#drawn);
    if (signal?.aborted) return { kind: "aborted" };
    if (numDrawn === 0) return null;
    // The engine may have been lost between the last token and the word that it was the last.
    const tokenId = this.#drawn.at(-1)!.tokenIds.at(-1)!;
    if (looksBack(sampling)) {
      // Tokens that were shown cannot be taken back.
      if (onTokens !== undefined) return lost.finish;
      this.#drawn = [];
      return null;
    }
    if (sampling.stopIds?.includes(tokenId)) return { kind: "stop", by: "token", tokenId };
    if (numDrawn >= sampling.maxTokens) return { kind: "length", limit: "max-tokens" };
    if (promptIds.length + numDrawn >= this.#contextLength()) return { kind: "length", limit: "context" };
    return null;
  }

  /** The whole reply, which ended with this part of it. */
  joined(last: Generation): Generation {
    if (this.#drawn.length === 0) return last;
    const { finish, usage, ...tokens } = last;
    return this.#whole([...this.#drawn, tokens], finish, usage.cachedTokens);
  }

  /** The whole reply, ended after what lost engines have drawn. */
  ended(finish: Finish): Generation {
    return this.#whole(this.#drawn, finish, 0);
  }

  #whole(parts: readonly SampledTokens[], finish: Finish, cachedTokens: number): Generation {
    const generatedTokens = count(parts);
    const promptTokens = this.#request.promptIds.length;
    return {
      ...joinTokens(parts),
      finish,
      usage: { promptTokens, cachedTokens: Math.min(cachedTokens, promptTokens), generatedTokens },
    };
  }
}

/** Whether what may be drawn depends on where the reply began, which the next engine does not know: such a reply starts over. */
function looksBack({ stopStrings = [], constraint, frequencyPenalty = 0, presencePenalty = 0 }: Sampling): boolean {
  return stopStrings.length > 0 || constraint !== undefined || frequencyPenalty !== 0 || presencePenalty !== 0;
}

function count(parts: readonly SampledTokens[]): number {
  return parts.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
}
