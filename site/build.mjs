/**
 * Builds the documentation site: the Markdown of the repository, its examples and the types of its entry points, as pages with search.
 *
 * In: docs/, README.md, examples/, src/. Out: build/docs, plain files for any web server. A link to no page ends the build.
 * Usage: npm run docs [-- --base /reroll/]
 */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Application } from "typedoc";
import { build } from "vitepress";
import { pageOf, toSiteLinks } from "./pages.ts";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
const { values } = parseArgs({ options: { base: { type: "string", default: "/" } } });
const stage = "site/build";
const pages = join(stage, "pages");

rmSync(stage, { recursive: true, force: true });
cpSync("docs/images", join(pages, "public/images"), { recursive: true });
const decisions = writeDocuments();
writeExamples();
const entryPoints = await writeApi();
writeFileSync(join(stage, "outline.json"), JSON.stringify({ entryPoints, decisions }));
// VitePress looks for its settings in a folder of this name.
writePage("../.vitepress/config.mjs", 'export { default } from "../../config.mjs";\n');
writePage("../.vitepress/theme/index.mjs", 'export { default } from "../../../theme/index.mjs";\n');
await build(stage, { base: values.base });

/** Every document at its place. Returns the entries of the decisions, newest first. */
function writeDocuments() {
  const inDocs = readdirSync("docs", { recursive: true }).filter((name) => name.endsWith(".md"));
  const paths = [
    ...inDocs.map((name) => `docs/${name}`),
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "bench/README.md",
  ];
  for (const path of paths) writePage(pageOf(path), toSiteLinks(path, readFileSync(path, "utf8")));
  // The front page is the README under a larger title.
  const readme = toSiteLinks("README.md", readFileSync("README.md", "utf8")).replace(/^# .+\n\n.+\n/, "");
  writePage(
    "index.md",
    `${readFileSync("site/front.md", "utf8")}\n<div class="vp-doc container">\n\n${readme}\n</div>\n`,
  );
  const names = readdirSync("docs/decisions").toSorted().toReversed();
  const entries = names.map((name) => ({
    text: titleOf(readFileSync(join("docs/decisions", name), "utf8")),
    link: `/decisions/${name.replace(/\.md$/, "")}`,
  }));
  const list = entries.map(({ text, link }) => `- [${text}](${link})`).join("\n");
  writePage("decisions/index.md", `# Decisions\n\nWhat was chosen, against what, and why.\n\n${list}\n`);
  return entries;
}

/** A page for each example, and one that lists them by folder with what their headers say. */
function writeExamples() {
  const paths = readdirSync("examples", { recursive: true })
    .filter((name) => /\.(ts|mjs|py)$/.test(name) && !name.includes("node_modules") && !name.endsWith(".d.ts"))
    .toSorted();
  const lists = [...new Set(paths.map(dirname))].map((folder) => {
    const names = paths.filter((path) => dirname(path) === folder);
    const items = names.map(
      (name) => `- [${name}](./${name}.md): ${headline(readFileSync(join("examples", name), "utf8"))}`,
    );
    return `## ${folder}\n\n${items.join("\n")}\n`;
  });
  writePage(
    "examples/index.md",
    `# Examples\n\nWhole loops in one file, and run files with the numbers to expect.\n\n${lists.join("\n")}`,
  );
  for (const name of paths) {
    const code = readFileSync(join("examples", name), "utf8");
    const language = name.split(".").at(-1);
    writePage(`examples/${name}.md`, `# examples/${name}\n\n\`\`\`\`${language}\n${code}\`\`\`\`\n`);
  }
}

/** The exported names of every entry point, from their types and doc comments. Returns the entries of the sidebar. */
async function writeApi() {
  const { exports } = JSON.parse(readFileSync("package.json", "utf8"));
  const names = Object.keys(exports).filter((name) => !name.endsWith(".json"));
  const app = await Application.bootstrapWithPlugins({
    plugin: [fileURLToPath(import.meta.resolve("typedoc-plugin-markdown"))],
    entryPoints: names.map((name) => (name === "." ? "src/index.ts" : `src/${name.slice(2)}/index.ts`)),
    tsconfig: "tsconfig.build.json",
    readme: "none",
    name: "API",
    disableSources: true,
    excludePrivate: true,
    excludeInternal: true,
    validation: { notExported: false },
    entryFileName: "index",
    outputFileStrategy: "modules",
    hidePageHeader: true,
    hideBreadcrumbs: true,
    useCodeBlocks: true,
    useHTMLEncodedBrackets: true,
    sanitizeComments: true,
    // Types that zod infers are pages long when they are written out.
    maxTypeConversionDepth: 3,
    logLevel: "Warn",
  });
  const project = await app.convert();
  if (project === undefined) throw new Error("The types do not compile: npm run types says why.");
  // Thousands of libtorch's operators, each a line of types: the guide says how to call them.
  for (const reflection of Object.values(project.reflections)) {
    if (reflection.name === "Operators")
      for (const list of ["children", "childrenIncludingDocuments", "groups"]) delete reflection[list];
  }
  for (const module of project.children) module.name = module.name === "index" ? "reroll" : `reroll/${module.name}`;
  await app.outputs.writeOutput({ name: "markdown", path: join(pages, "api") }, project);
  return names.map((name) => {
    const text = name.replace(/^\./, "reroll");
    return { text, link: `/api/${text}/` };
  });
}

function writePage(page, text) {
  const path = join(pages, page);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

function titleOf(markdown) {
  return markdown.match(/^# (.+)$/m)[1];
}

/** The first sentence of a file's header. */
function headline(code) {
  const [, text] = code.match(/^(?:\/\*\*\s*|"""|#\s*)([\s\S]*?)(?:\n \*\n|\*\/|\n\n|""")/) ?? [];
  return (text ?? "").replace(/\n \* ?/g, " ").trim();
}
