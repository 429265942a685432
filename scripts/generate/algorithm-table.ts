/**
 * docs/reference/algorithms.md: every piece and recipe with its formula, options, source, and the peers that have it.
 *
 * Formulas and sources are the doc comments of the code, options its types and schemas, and peers the rows of
 * src/algorithms/catalog.
 */
import { z } from "zod";
import { commonOptions } from "../../src/algorithms/recipe-runner/recipe-options.ts";
import { type RecipeName, recipeJsonSchema, recipes } from "../../src/algorithms/recipes/table.ts";
import { klFormPeers } from "./algorithm-table/catalog/kl-forms.ts";
import { type PieceKind, pieces } from "./algorithm-table/catalog/pieces.ts";
import { recipePeers } from "./algorithm-table/catalog/recipes.ts";
import { reductionPeers } from "./algorithm-table/catalog/reductions.ts";
import { type AlgorithmSources, readSources } from "./algorithm-table/read-source.ts";
import { type JsonSchema, type OptionRow, propertiesOf, schemaRows } from "./algorithm-table/schema-rows.ts";

/** The text of docs/reference/algorithms.md. */
export function algorithmTable(root: string): string {
  const sources = readSources(root);
  return `${[
    "<!-- Made by `npm run generate` from src/algorithms. Do not edit. -->",
    "# Algorithms",
    "Every piece is a pure function in `src/algorithms`, and its formula is its doc comment. A recipe puts pieces together: " +
      '`buildRecipe({ type: "grpo", clipHigh: 0.28 })`. How to read, combine and add them: [guide](../guides/algorithms.md).',
    "In formulas, r is the ratio policy / anchor, A the advantage, w an importance weight, t a token, b a row, g a group. " +
      "Peers are the projects whose source code has the piece (August 2026); agent-lightning has what verl has. A name that is " +
      "missing was not found there, which does not prove that the piece is absent.",
    ...recipeSection(sources),
    ...pieceSection(sources, "Advantages", "advantage"),
    ...pieceSection(sources, "Policy losses", "policy loss"),
    ...pieceSection(sources, "Other losses", "other loss"),
    ...pieceSection(sources, "Corrections", "correction"),
    'Rejection criteria under each convention, with w = policy / sampler. For k1, a single t stands for "1/t_t".',
    table(
      ["criterion", "keeps under `ratio`", "keeps under `verl`"],
      docTable(sources.docOf("corrections/correction-options.ts", "REJECTION_NAMES")),
    ),
    ...pieceSection(sources, "KL", "kl"),
    "Estimators, with d = policy - reference. A `+` after the name keeps the value and takes the gradient of k2 (verl):",
    table(["form", "value", "gradient in d", "note", "peers"], klRows(sources)),
    ...pieceSection(sources, "Reduction", "reduction"),
    "N sequences (rows), M trajectories and P prompts have at least one loss token; n_b, n_i and n_p count the loss tokens of " +
      "row b, trajectory i and prompt p, and n counts them all.",
    table(["type", "loss", "source", "peers"], reductionRows(sources)),
    ...pieceSection(sources, "Shaping", "shaping"),
  ].join("\n\n")}\n`;
}

function recipeSection(sources: AlgorithmSources): string[] {
  const names = Object.keys(recipes) as RecipeName[];
  return [
    "## Recipes",
    table(
      ["recipe", "what it is", "source", "peers"],
      names.map((name) => {
        const { formula, source } = splitDoc(sources.docOf(`recipes/${name}.ts`, constantOf(name)));
        return [`[\`${name}\`](#${name})`, formula, source, recipePeers[name].join(", ")];
      }),
    ),
    "### Options of all recipes",
    optionTable(schemaRows(commonSchema)),
    ...names.flatMap((name) => [`### ${name}`, optionTable(ownRows(name))]),
  ];
}

function pieceSection(sources: AlgorithmSources, title: string, kind: PieceKind): string[] {
  const rows = pieces
    .filter((piece) => piece.kind === kind)
    .map(({ file, name, peers, source }) => {
      const doc = splitDoc(sources.docOf(file, name));
      const options = sources.optionsOf(file, name).map((option) => `\`${option}\``);
      return [`\`${name}\`, in ${file}`, doc.formula, options.join(", "), source ?? doc.source, peers.join(", ")];
    });
  return [`## ${title}`, table(["piece", "formula", "options", "source", "peers"], rows)];
}

const commonSchema = z.toJSONSchema(z.strictObject(commonOptions), { io: "input" }) as JsonSchema;

/** The options that a recipe adds, or gives another default. */
function ownRows(name: RecipeName): OptionRow[] {
  const common = propertiesOf(commonSchema);
  const schema = recipeJsonSchema(name) as JsonSchema;
  const own = Object.entries(propertiesOf(schema)).filter(
    ([key, value]) => key !== "type" && JSON.stringify(value) !== JSON.stringify(common[key]),
  );
  return schemaRows({ properties: Object.fromEntries(own), required: schema.required });
}

function optionTable(rows: readonly OptionRow[]): string {
  return table(
    ["option", "values", "default", "meaning"],
    rows.map(({ key, values, initial, meaning }) => [
      `\`${key}\``,
      values,
      initial === "" || initial === "required" ? initial : `\`${initial}\``,
      meaning,
    ]),
  );
}

function klRows(sources: AlgorithmSources): string[][] {
  return docTable(sources.docOf("kl/estimate.ts", "")).map(([form = "", ...cells]) => [
    form,
    ...cells,
    peersOf(klFormPeers, form),
  ]);
}

function reductionRows(sources: AlgorithmSources): string[][] {
  return docTable(sources.docOf("reduce.ts", "Reduction")).map(([type = "", loss = "", source = ""]) => [
    type,
    loss,
    source,
    peersOf(reductionPeers, type),
  ]);
}

function peersOf(known: Readonly<Record<string, readonly string[]>>, name: string): string {
  const found = known[name];
  if (found === undefined) throw new Error(`The catalog does not know "${name}", which a doc comment lists.`);
  return found.join(", ");
}

/** The cells of the table in a doc comment, without its head. */
function docTable(doc: string): string[][] {
  const lines = doc.split("\n").filter((line) => line.startsWith("|"));
  return lines.slice(2).map((line) =>
    line
      .slice(1, line.lastIndexOf("|"))
      .split("|")
      .map((cell) => cell.trim()),
  );
}

/** The first paragraph is the formula; where it ends open, the next one closes it. Papers are cited in sentences. */
function splitDoc(doc: string): { formula: string; source: string } {
  const cases = docTable(doc);
  const paragraphs = doc
    .split(/\n\s*\n/)
    .filter((paragraph) => !paragraph.startsWith("|"))
    .map(oneLine);
  const [first = "", second = ""] = paragraphs;
  const isOpen = !/[.:]$/.test(first);
  const rest = cases.length > 0 ? cases.map(caseText).join("; ") : isOpen ? second : "";
  const cited = paragraphs.flatMap(sentencesOf).filter((sentence) => /arXiv:|^Sources?:/.test(sentence));
  const formula = sentencesOf(first).filter((sentence, i) => i === 0 || !cited.includes(sentence));
  const joint = isOpen ? (/follows$/.test(first) ? ": " : "; ") : " ";
  const sources = [...cases.map((cells) => cells.at(-1) ?? ""), ...cited.map(withoutLabel)];
  return {
    formula: rest === "" ? formula.join(" ") : `${formula.join(" ")}${joint}${rest}`,
    source: sources.join("; "),
  };
}

function withoutLabel(sentence: string): string {
  return sentence.replace(/^Sources?: /, "").replace(/\.$/, "");
}

function caseText([name = "", value = ""]: readonly string[]): string {
  return `${name}: ${value}`;
}

/** Splits after a full stop before a capital letter, but not after "Dr". */
function sentencesOf(text: string): string[] {
  return text.split(/(?<=\.)(?<!\bDr\.) (?=[A-Z])/);
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

function table(headers: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cellText).join(" | ")} |`;
  return [line(headers), `|${headers.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n");
}

/** Text for a cell: bars and angles do not act, and papers are links. */
function cellText(text: string): string {
  return text
    .replaceAll("|", "\\|")
    .replaceAll("<", "&lt;")
    .replace(/arXiv:(\d{4}\.\d{4,5})/g, "[arXiv:$1](https://arxiv.org/abs/$1)");
}

function constantOf(name: string): string {
  if (name === "maxrl") return "maxRl";
  return name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
