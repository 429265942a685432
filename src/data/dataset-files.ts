/**
 * Which files of a data set hold the rows of a split: by what the head of its README says, or by the names of its folders and files.
 *
 * Pure, over the names of files: the same answer for a folder on disk and for a repository on the Hub.
 */
import { parse } from "yaml";
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import { type DataFormatName, formatOfFile } from "./read-rows.ts";

/** A part of a data set. */
export interface DatasetPart {
  /** One of the data sets that a repository holds, such as `main` of openai/gsm8k. Default: the one its README calls the default. */
  readonly subset?: string | undefined;
  /** As in train, validation and test. Default train. */
  readonly split?: string | undefined;
}

/** Files of one format. */
interface DatasetFiles {
  readonly format: DataFormatName;
  /** In the order of their names. */
  readonly files: readonly string[];
}

/** Chooses among the names of all files. `name` is what the data set is called in messages; `readme` the text of its README.md. */
export function chooseDatasetFiles(
  name: string,
  paths: readonly string[],
  readme: string | null,
  { subset, split = "train" }: DatasetPart,
): DatasetFiles {
  const subsets = subsetsOf(readme) ?? [byNames(paths)];
  const chosen = chooseSubset(name, subsets, subset);
  const patterns = chosen.splits.get(split);
  if (patterns === undefined) {
    const known = [...chosen.splits.keys()].join(", ") || "none that reroll can read";
    throw new RerollError(
      "INVALID_OPTION",
      `${name} has no split ${JSON.stringify(split)}${subset === undefined ? "" : ` in ${subset}`}. It has: ${known}. Set split to one of them.`,
      { name, split },
    );
  }
  const matches = patterns.map(globPattern);
  const found = paths.filter((path) => matches.some((match) => match.test(path))).sort();
  const formats = found.map(formatOfFile);
  const format = PREFERRED.find((one) => formats.includes(one));
  if (format === undefined) throw noRows(name, found.length === 0 ? paths : found);
  return { format, files: found.filter((_, i) => formats[i] === format) };
}

/** Where a data set has the same rows in several formats, the first of these is read. */
const PREFERRED: readonly DataFormatName[] = ["parquet", "jsonl", "json"];

interface Subset {
  readonly name: string;
  readonly isDefault: boolean;
  /** Patterns of file names by split. */
  readonly splits: ReadonlyMap<string, readonly string[]>;
}

function chooseSubset(name: string, subsets: readonly Subset[], wanted: string | undefined): Subset {
  const found =
    wanted === undefined
      ? (subsets.find(({ isDefault }) => isDefault) ??
        subsets.find((one) => one.name === "default") ??
        (subsets.length === 1 ? subsets[0] : undefined))
      : subsets.find((one) => one.name === wanted);
  if (found !== undefined) return found;
  const what = wanted === undefined ? "holds several data sets" : `has no data set ${JSON.stringify(wanted)}`;
  throw new RerollError(
    "INVALID_OPTION",
    `${name} ${what}. Set subset to one of: ${subsets.map((one) => one.name).join(", ")}.`,
    { name, wanted },
  );
}

/** Reads `configs` from the YAML before the text of a README; undefined where there is none. */
function subsetsOf(readme: string | null): Subset[] | undefined {
  const head = readme === null ? undefined : /^---\r?\n([\s\S]*?)\r?\n---/.exec(readme)?.[1];
  const parsed = head === undefined ? undefined : card.safeParse(parseYaml(head)).data?.configs;
  const subsets = parsed?.flatMap(({ config_name, data_files, data_dir, default: isDefault = false }) => {
    const files = data_files ?? (data_dir === undefined ? undefined : `${data_dir}/**`);
    return files === undefined ? [] : [{ name: config_name, isDefault, splits: splitsOf(files, data_dir) }];
  });
  return subsets === undefined || subsets.length === 0 ? undefined : subsets;
}

function parseYaml(text: string): unknown {
  try {
    return parse(text);
  } catch {
    // A README that is not well formed says nothing; the names of the files do.
    return undefined;
  }
}

const patterns = z.union([z.string(), z.array(z.string())]);
const card = z.looseObject({
  configs: z
    .array(
      z.looseObject({
        config_name: z.string().default("default"),
        default: z.boolean().optional(),
        data_dir: z.string().optional(),
        data_files: z
          .union([
            patterns,
            z.array(z.looseObject({ split: z.string(), path: patterns })),
            z.record(z.string(), patterns),
          ])
          .optional(),
      }),
    )
    .optional(),
});

type DataFiles =
  | string
  | readonly string[]
  | readonly { split: string; path: string | string[] }[]
  | Record<string, string | string[]>;

function splitsOf(files: DataFiles, folder: string | undefined): ReadonlyMap<string, readonly string[]> {
  const within = (path: string | readonly string[]) =>
    [path].flat().map((one) => (folder === undefined || one.startsWith(`${folder}/`) ? one : `${folder}/${one}`));
  if (typeof files === "string") return new Map([["train", within(files)]]);
  if (!Array.isArray(files)) return new Map(Object.entries(files).map(([split, path]) => [split, within(path)]));
  const plain = files.filter((one): one is string => typeof one === "string");
  if (plain.length > 0) return new Map([["train", within(plain)]]);
  const named = files as readonly { split: string; path: string | string[] }[];
  return new Map(named.map(({ split, path }) => [split, within(path)]));
}

/** Words that stand for a split in names of folders and files. */
const SPLIT_WORDS: Readonly<Record<string, readonly string[]>> = {
  train: ["train", "training"],
  validation: ["validation", "valid", "val", "dev"],
  test: ["test", "testing", "eval", "evaluation"],
};

/** Splits by the words in names; files without such a word are all training. */
function byNames(paths: readonly string[]): Subset {
  const readable = paths.filter((path) => formatOfFile(path) !== undefined);
  const splits = new Map<string, string[]>();
  for (const [split, words] of Object.entries(SPLIT_WORDS)) {
    const word = new RegExp(`(^|[^a-z0-9])(${words.join("|")})([^a-z0-9]|$)`, "i");
    const own = readable.filter((path) => word.test(path));
    if (own.length > 0) splits.set(split, own);
  }
  if (splits.size === 0 && readable.length > 0) splits.set("train", readable);
  return { name: "default", isDefault: true, splits };
}

/** `*` stands for anything within a name, `**` also across folders. */
function globPattern(pattern: string): RegExp {
  const source = pattern
    .replace(/^\.\//, "")
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replace(/\*\*\/?|\*|\?/g, (mark) => (mark.startsWith("**") ? ".*" : mark === "*" ? "[^/]*" : "[^/]"));
  return new RegExp(`^${source}$`);
}

function noRows(name: string, paths: readonly string[]): RerollError {
  const shown = paths.slice(0, 8).join(", ");
  return new RerollError(
    "DATA_EMPTY",
    `${name} has no rows in Parquet, JSONL or JSON: found ${shown || "no files"}. Convert them, as with \`hf download ${name} --revision refs/convert/parquet\`.`,
    { name },
  );
}
