/**
 * The texts of a trajectory's tokens.
 *
 * In: a record and the run's folder. Out: a text for each token, by turn; null if the folder has no tokenizer that can
 * be read. A run from a preset has one beside its weights, other runs from their first checkpoint on. Tokenizers
 * elsewhere are not read.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { runFiles } from "../tracking/run-record.ts";
import type { TrajectoryRecord } from "../tracking/trajectory-record.ts";
import type { TurnTexts } from "./answers.ts";
import { openPlainFile } from "./open-plain-file.ts";

/** Splits ids into texts, one for each; joined they are the whole text. */
export type DecodeTokens = (ids: readonly number[]) => readonly string[];
/** Opens the tokenizer of a folder in Hugging Face layout. */
export type OpenTokenizer = (folder: string) => Promise<DecodeTokens>;

/** Tokenizers by folder; those of runs that were looked at. */
export class TokenTexts {
  readonly #openTokenizer: OpenTokenizer;
  readonly #opened = new Map<string, DecodeTokens>();

  constructor(openTokenizer: OpenTokenizer) {
    this.#openTokenizer = openTokenizer;
  }

  async ofRecord(folder: string, { turns }: TrajectoryRecord): Promise<readonly TurnTexts[] | null> {
    const tokenizer = await findTokenizer(folder);
    if (tokenizer === undefined) return null;
    const decode = await this.#open(tokenizer);
    if (decode === null) return null;
    return turns.map(({ promptIds, tokenIds }) => ({ prompt: decode(promptIds), reply: decode(tokenIds) }));
  }

  /**
   * null for a tokenizer that cannot be read, because it is half written or of an unknown kind: the numbers are worth
   * showing without it.
   */
  async #open(folder: string): Promise<DecodeTokens | null> {
    const known = this.#opened.get(folder) ?? (await this.#openTokenizer(folder).catch(() => null));
    if (known !== null) this.#opened.set(folder, known);
    return known;
  }
}

async function findTokenizer(folder: string): Promise<string | undefined> {
  const checkpoints = await readdir(join(folder, runFiles.checkpoints)).catch(() => []);
  const latest = checkpoints.filter((name) => /^step-\d+$/.test(name)).sort();
  const places = [join(folder, "model"), ...latest.slice(-1).map((name) => join(folder, "checkpoints", name, "model"))];
  for (const place of places) {
    const file = await openPlainFile(join(place, "tokenizer.json"));
    await file?.close();
    if (file !== undefined) return place;
  }
  return undefined;
}
