import { describe, expect, test } from "vitest";
import { chooseDatasetFiles } from "./dataset-files.ts";

const readme = (yaml: string) => `---\nlicense: mit\n${yaml}\n---\n# Rows\n`;
const choose = (paths: readonly string[], text: string | null, part = {}) =>
  chooseDatasetFiles("me/rows", paths, text, part);

describe("a README that says which files belong to what", () => {
  const paths = ["README.md", "main/train-00000-of-00001.parquet", "main/test-0.parquet", "socratic/train-0.parquet"];
  const text = readme(
    [
      "configs:",
      "- config_name: main",
      "  data_files:",
      "  - split: train",
      "    path: main/train-*",
      "  - split: test",
      "    path: main/test-*",
      "- config_name: socratic",
      "  data_files: socratic/*.parquet",
    ].join("\n"),
  );

  test("chooses by subset and split, train where none is named", () => {
    expect(choose(paths, text, { subset: "main" })).toEqual({ format: "parquet", files: [paths[1]] });
    expect(choose(paths, text, { subset: "main", split: "test" }).files).toEqual([paths[2]]);
    expect(choose(paths, text, { subset: "socratic" }).files).toEqual([paths[3]]);
  });

  test("asks which one where there are several and none is the default", () => {
    expect(() => choose(paths, text)).toThrow("me/rows holds several data sets. Set subset to one of: main, socratic.");
    expect(() => choose(paths, text, { subset: "other" })).toThrow('has no data set "other"');
    expect(() => choose(paths, text, { subset: "main", split: "dev" })).toThrow(
      'no split "dev" in main. It has: train, test.',
    );
    expect(choose(paths, text.replace("name: main", "name: main\n  default: true")).files).toEqual([paths[1]]);
  });
});

describe("names alone", () => {
  test("tell the splits, whatever they are called", () => {
    const paths = ["data/train.jsonl", "data/valid.jsonl", "data/test.jsonl.gz", "latest.txt"];
    expect(choose(paths, null)).toEqual({ format: "jsonl", files: ["data/train.jsonl"] });
    expect(choose(paths, null, { split: "validation" }).files).toEqual(["data/valid.jsonl"]);
    expect(choose(paths, null, { split: "test" }).files).toEqual(["data/test.jsonl.gz"]);
  });

  test("without a word for a split are all training, Parquet before JSON", () => {
    const paths = ["b.parquet", "a.parquet", "rows.json"];
    expect(choose(paths, "No head.")).toEqual({ format: "parquet", files: ["a.parquet", "b.parquet"] });
  });

  test("of other formats are refused", () => {
    expect(() => choose(["train.csv"], null)).toThrow(/has no split "train".*none that reroll can read/);
  });
});
