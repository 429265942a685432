/**
 * What ranks know of the parameters that learn, in files: each writes its own parts and reads those it needs, whoever wrote them.
 *
 * Where one rank has everything, `optimizer.safetensors` has the tensors and `optimizer.json` the numbers. Where ranks have parts, rank r of n
 * writes `optimizer-r-of-n`, and says in the JSON which part of which tensor is in it. Nothing is gathered to write, and to read no rank has more
 * than one tensor whole. A run goes on under another layout, or number of ranks, since any part is cut from whatever parts there are.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { type FileSink, toDisk } from "../models/formats/file-sink.ts";
import { resolveCheckpoint } from "../models/formats/resolve-checkpoint.ts";
import { MappedCheckpoint, tensorSource } from "../models/formats/tensor-files.ts";
import { cutPart, joinParts, type TensorPart } from "../torch/distributed/tensor-part.ts";
import { tensorScope } from "../torch/scope.ts";
import { putJson } from "./state-files.ts";
import type { SavedState, StateParts } from "./strategy/parameter-set.ts";

const prefix = "parameter.";

/** Which of how many files a rank writes. */
interface ShardPlace {
  readonly index: number;
  readonly count: number;
}

/** What is in the JSON of a shard. */
interface ShardFacts {
  readonly numbers: Readonly<Record<string, number>>;
  /** By the names of tensors: the whole shape, and the part of it that is here. */
  readonly parts: Readonly<Record<string, TensorPart & { readonly shape: readonly number[] }>>;
}

/** Writes a rank's parts, in a folder that need not be there. */
export function writeShard(
  folder: string,
  { tensors, numbers }: StateParts,
  { index, count }: ShardPlace,
  sink: FileSink = toDisk,
): void {
  mkdirSync(folder, { recursive: true });
  const stem = join(folder, count === 1 ? "optimizer" : `optimizer-${index}-of-${count}`);
  const stored = tensors.map((one) => ({ ...one, key: one.of === "parameters" ? `${prefix}${one.name}` : one.name }));
  sink.tensors(
    `${stem}.safetensors`,
    stored.map(({ key, value }) => tensorSource(key, value)),
  );
  const parts = Object.fromEntries(stored.map(({ key, part, shape }) => [key, { ...part, shape }]));
  const facts: ShardFacts = { numbers, parts };
  putJson(sink, `${stem}.json`, count === 1 ? numbers : facts);
}

/** Calls `use` with what all ranks wrote. */
export function readShards(folder: string, use: (state: SavedState) => void): void {
  const shards = openShards(folder);
  const numbers = Object.assign({}, ...shards.map(({ facts }) => facts.numbers)) as Record<string, number>;
  const keys = new Set(shards.flatMap(({ facts }) => Object.keys(facts.parts)));
  const read = (key: string, wanted: TensorPart) => {
    const having = shards.filter(({ facts }) => key in facts.parts);
    // One that was saved as it is wanted is read as it lies.
    const same = having.find(({ facts: { parts } }) => isSame(parts[key]!, wanted));
    if (same !== undefined) return same.mapped.read(key);
    const { shape } = having[0]!.facts.parts[key]!;
    const pieces = having.map(({ facts, mapped }) => ({ part: facts.parts[key]!, value: mapped.read(key) }));
    const { dtype } = pieces[0]!.value;
    const isWhole = pieces.length === 1 && isSame(pieces[0]!.part, { cut: null, stretch: null });
    return cutPart(isWhole ? pieces[0]!.value : joinParts({ dtype, shape }, pieces), wanted);
  };
  try {
    tensorScope(() =>
      use({
        numbers,
        parameters: new Set([...keys].filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length))),
        known: new Set([...keys].filter((key) => !key.startsWith(prefix))),
        readParameter: (name, part) => read(`${prefix}${name}`, part),
        readKnown: read,
      }),
    );
  } finally {
    for (const { mapped } of shards) mapped.dispose();
  }
}

/** A file of parts that is open. */
interface OpenShard {
  readonly facts: ShardFacts;
  readonly mapped: MappedCheckpoint;
}

function openShards(folder: string): readonly OpenShard[] {
  if (existsSync(join(folder, "optimizer.json"))) return [openWhole(folder)];
  const found = existsSync(folder) ? readdirSync(folder) : [];
  const counts = found.flatMap((name) => /^optimizer-\d+-of-(\d+)\.json$/.exec(name)?.[1] ?? []);
  const count = Number(counts[0] ?? 1);
  return Array.from({ length: count }, (_, index) => {
    const stem = join(folder, count === 1 ? "optimizer" : `optimizer-${index}-of-${count}`);
    const mapped = new MappedCheckpoint(resolveCheckpoint(`${stem}.safetensors`));
    return { facts: readJson(`${stem}.json`) as ShardFacts, mapped };
  });
}

/** One file with everything, which says nothing about parts. */
function openWhole(folder: string): OpenShard {
  const resolved = resolveCheckpoint(join(folder, "optimizer.safetensors"));
  const whole = { cut: null, stretch: null };
  const parts = Object.fromEntries([...resolved.tensors].map(([key, { shape }]) => [key, { ...whole, shape }]));
  const numbers = readJson(join(folder, "optimizer.json")) as Record<string, number>;
  return { facts: { numbers, parts }, mapped: new MappedCheckpoint(resolved) };
}

function isSame(one: TensorPart, other: TensorPart): boolean {
  const cutOf = ({ cut }: TensorPart) => cut && [cut.dim, ...cut.sizes, cut.ranks.index, cut.ranks.count];
  const stretchOf = ({ stretch }: TensorPart) => stretch && [stretch.start, stretch.length];
  return `${cutOf(one)} ${stretchOf(one)}` === `${cutOf(other)} ${stretchOf(other)}`;
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw new RerollError("CHECKPOINT_BROKEN", `${path} cannot be read: ${String(cause)}.`, { path }, { cause });
  }
}
