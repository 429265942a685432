/** VitePress, over the pages that build.mjs lays out. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitepress";
import { sidebarOf, slugOf } from "./pages.ts";

const read = (path) => readFileSync(fileURLToPath(new URL(`../${path}`, import.meta.url)), "utf8");
const { entryPoints, decisions } = JSON.parse(read("site/build/outline.json"));
const api = { text: "API", items: [{ text: "Overview", link: "/api/" }, ...entryPoints] };
const project = {
  text: "Project",
  items: [
    { text: "Benchmarks", link: "/benchmarks" },
    { text: "Contributing", link: "/contributing" },
    { text: "Security", link: "/security" },
    { text: "Changelog", link: "/changelog" },
  ],
};

export default defineConfig({
  title: "reroll",
  description: "Reinforcement learning for language models and agents, in TypeScript.",
  srcDir: fileURLToPath(new URL("./build/pages", import.meta.url)),
  outDir: fileURLToPath(new URL("../build/docs", import.meta.url)),
  cacheDir: fileURLToPath(new URL("./build/cache", import.meta.url)),
  cleanUrls: true,
  // Addresses in texts about servers on this machine.
  ignoreDeadLinks: "localhostLinks",
  // The anchors of GitHub, so that links to headings lead somewhere in both places.
  markdown: { anchor: { slugify: slugOf }, toc: { slugify: slugOf } },
  themeConfig: {
    search: { provider: "local", options: { detailedView: true } },
    outline: { level: [2, 3] },
    nav: [
      { text: "Guides", link: "/contents", activeMatch: "^/(contents|guides|concepts)" },
      { text: "Examples", link: "/examples/", activeMatch: "^/examples/" },
      { text: "Results", link: "/results" },
      { text: "Run file", link: "/reference/run-file" },
      { text: "API", link: "/api/", activeMatch: "^/api/" },
    ],
    sidebar: {
      "/api/": [api],
      "/decisions/": [{ text: "Decisions", items: decisions }],
      "/": [...sidebarOf(read("docs/README.md")), project, { text: "API", items: entryPoints, collapsed: true }],
    },
  },
});
